"""The scripted model as an adapter: files, waits and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge import hookspecs
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.llm.model import MODELS, ModelRequest, Models
from acp_bridge.session.chunks import TextDelta
from acp_bridge.session.content import TextBlock
from acp_bridge_plugins.models_scripted.plugin import ModelsScripted
from tests.models.asking import ask, assembled, failure, prompt, reply, request_of

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).resolve().parents[2] / "docs" / "screenplays.md"


def written(folder: Path, *steps: dict[str, Any], name: str = "play.json") -> str:
    path = folder / name
    path.write_text(json.dumps({"turns": [{"steps": list(steps)}]}), encoding="utf-8")
    return str(path)


def asked(path: str) -> ModelRequest:
    return request_of(prompt(), model=path, provider="scripted")


async def test_a_mounted_screenplay_answers(tmp_path: Path) -> None:
    kernel, models = Kernel(hookspecs, Silent()), Models()
    async with kernel.providing(MODELS, models, "test"):
        async with kernel.mounted(ModelsScripted()):
            path = written(tmp_path, {"text": "hello"})
            assert models.unusable("scripted", path) is None
            chunks = await ask(models.adapter("scripted"), asked(path))
        assert models.unusable("scripted", path) is not None
    assert assembled(chunks).blocks() == (TextBlock("hello"),)


async def test_a_path_may_be_relative_and_the_file_may_be_edited_between_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plays").mkdir()
    adapter = ModelsScripted()
    for text in ("one", "two"):
        written(tmp_path, {"text": text}, name="plays/a.json")
        chunks = await ask(adapter, asked("plays/a.json"))
        assert assembled(chunks).blocks() == (TextBlock(text),)


async def test_a_new_adapter_goes_on_where_the_log_says(tmp_path: Path) -> None:
    path = tmp_path / "play.toml"
    path.write_text('[[turns]]\n[[turns.steps]]\ntext = "one"\n[[turns]]\n[[turns.steps]]\ntext = "two"\n')
    request = request_of(prompt(), reply(TextBlock("cut")), prompt(), model=str(path), provider="scripted")
    assert assembled(await ask(ModelsScripted(), request)).blocks() == (TextBlock("two"),)


async def test_the_stream_pauses_until_the_file_exists(tmp_path: Path) -> None:
    path = written(tmp_path, {"text": ["before ", {"wait_for_file": "go"}, "after"]})
    said = ""
    with anyio.fail_after(20):
        async for chunk in ModelsScripted().stream(asked(path)):
            if isinstance(chunk, TextDelta):
                said += chunk.text
                if said == "before ":
                    (tmp_path / "go").touch()
    assert said == "before after"


async def test_a_pause_that_nobody_ends_is_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, {"wait_for_file": "never", "text": "a"})
    found = failure(await ask(ModelsScripted(file_wait_s=0.05), asked(path)))
    assert found.code == "SCREENPLAY"
    assert "never did not appear" in found.message


async def test_a_pause_can_be_cancelled(tmp_path: Path) -> None:
    path = written(tmp_path, {"wait_for_file": "never"})
    with anyio.fail_after(20), anyio.move_on_after(0.05) as scope:
        await ask(ModelsScripted(), asked(path))
    assert scope.cancelled_caught


async def test_a_broken_expectation_names_what_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, {"expect": ["hello", "nobody said this"], "text": "a"})
    found = failure(await ask(ModelsScripted(), asked(path)))
    assert found.code == "SCREENPLAY"
    assert "'nobody said this'" in found.message
    assert "'hello'" not in found.message


@pytest.mark.parametrize("what", ["missing", "folder", "unreadable", "fifo", "huge", ""])
async def test_a_file_that_cannot_be_played_is_said_in_words_and_never_raised(tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    elif what == "unreadable":
        path.write_bytes(b"turns = [")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "huge":
        with path.open("wb") as file:
            file.truncate(5 * 1024**2)
    model = str(path) if what else ""
    adapter = ModelsScripted()
    sentence = adapter.unusable(model)
    assert sentence is not None
    assert model in sentence
    assert failure(await ask(adapter, asked(model))).message == sentence


async def test_the_example_in_the_documentation_can_be_played(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    path = tmp_path / "play.toml"
    path.write_text(example[1], encoding="utf-8")
    chunks = await ask(ModelsScripted(), asked(str(path)))
    assert [type(block).__name__ for block in assembled(chunks).blocks()] == [
        "ReasoningBlock",
        "TextBlock",
        "ToolCallBlock",
    ]
