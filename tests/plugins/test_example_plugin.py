"""The example in docs/ is built, installed as a distribution of its own, found, checked and used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import msgspec
import pytest

from acp_bridge.lifecycle.kernel import Plugin
from acp_bridge.sandbox.paths import PRIVATE_DIRS
from acp_bridge.session.content import text_of
from acp_bridge.session.events import ToolPrepared, ToolResult
from acp_bridge.testing import check_plugin
from acp_bridge.tools.registry import TOOLS
from tests.support.fakes import ask_for, say
from tests.support.rig import Rig, ending, prompt

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example_plugin"
PACKAGE = "acp_bridge_word_count"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example as pip installs it, without a network."""
    target = tmp_path_factory.mktemp("example") / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    options = ["--no-build-isolation", "--quiet", "--target", str(target), str(EXAMPLE)]
    subprocess.run([*pip, *options], check=True, capture_output=True, timeout=120)
    return target


@pytest.fixture
def kind(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plugin's class, by the entry point of the installed distribution."""
    monkeypatch.syspath_prepend(str(installed))
    (entry,) = distribution(installed).entry_points.select(group="acp_bridge.plugins")
    assert entry.name == "word_count"
    found = entry.load()
    assert Path(sys.modules[found.__module__].__file__ or "").is_relative_to(installed)
    yield found
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def distribution(site: Path) -> Distribution:
    (found,) = distributions(path=[str(site)])
    return found


def made(kind: Any, **settings: Any) -> Plugin:
    """As the composition makes it: from what the user has set, validated."""
    plugin: Plugin = kind(msgspec.convert(settings, kind.Settings))
    return plugin


@asynccontextmanager
async def mounted(rig: Rig, plugin: Plugin, private: tuple[str, ...] = ()) -> AsyncIterator[None]:
    kernel = rig.kernel
    async with (
        kernel.providing(TOOLS, rig.registry, "test"),
        kernel.providing(PRIVATE_DIRS, private, "test"),
        kernel.mounted(plugin),
    ):
        yield


async def asked(kind: Any, path: Path | str, *, private: tuple[str, ...] = (), mode: str = "full-access") -> Rig:
    """A whole turn in which the model asks for the words of `path`."""
    rig = Rig(ask_for(("c1", "count_words", f'{{"path": "{path}"}}')), say("I see"), mode=mode)
    async with mounted(rig, made(kind), private), rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    return rig


def result(rig: Rig) -> tuple[str, str | None]:
    (found,) = rig.bodies(ToolResult)
    return text_of(found.block.content), found.error.code if found.error else None


def test_it_is_a_distribution_of_its_own_that_names_ours(installed: Path) -> None:
    found = distribution(installed)
    assert found.name == "acp-bridge-word-count"
    assert found.requires == ["acp-editor-bridge"]
    assert not (installed / "acp_bridge").exists()


async def test_it_leaves_nothing_behind_whatever_happens_on_its_way(kind: Any) -> None:
    await check_plugin(lambda: made(kind))


def test_its_own_test_passes(installed: Path) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "test_word_count.py")]
    done = subprocess.run(
        run, env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


async def test_the_model_gets_the_number_of_words_and_the_person_sees_the_file(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text("so much depends\nupon\n\na red wheel\n")
    rig = await asked(kind, path)
    assert result(rig) == ("7 words", None)
    (shown,) = rig.bodies(ToolPrepared)
    assert (shown.presentation.kind, shown.presentation.locations) == ("read", ((str(path), 0),))
    assert rig.registry.get("count_words") is None


async def test_it_obeys_the_rules_for_paths(kind: Any, tmp_path: Path) -> None:
    """Private directories, also through a link; what is no regular file; and a file outside, which is asked about."""
    private = tmp_path / "state"
    private.mkdir()
    (private / "log").write_text("secret words")
    (tmp_path / "link").symlink_to(private / "log")
    for path in (private / "log", tmp_path / "link"):
        text, code = result(await asked(kind, path, private=(str(private),)))
        assert "belongs to the agent itself" in text
        assert code == "FS_SANDBOX_DENIED"
    assert "is a directory" in result(await asked(kind, tmp_path))[0]
    assert "does not exist" in result(await asked(kind, tmp_path / "nothing"))[0]
    rig = await asked(kind, tmp_path / "nothing", mode="ask")
    assert "approval/asked" in rig.types


@pytest.mark.parametrize("arguments", [None, [], {}, {"path": 3}, {"path": ""}, {"path": "a\x1b[2J\ud800"}])
async def test_its_presentation_takes_any_arguments(kind: Any, arguments: Any) -> None:
    rig = Rig()
    async with mounted(rig, made(kind)):
        title = rig.registry.present("count_words", arguments, "/project").title
    assert title.startswith("Count words")
    title.encode()


async def test_the_audit_counts_the_results_of_each_session(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    rig = Rig(ask_for(("c1", "nothing"), ("c2", "nothing"), ("c3", "nothing")), say("I see"))
    monkeypatch.setattr(rig.notes, "note", notes.append)
    async with mounted(rig, made(kind, note_every=2)), rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
        assert notes == ["session session-1: 2 tool results"]
        kept = agent.session
    assert kept.id == "session-1"
    assert notes == ["session session-1: 2 tool results", "session session-1: 3 tool results"]


def test_settings_out_of_bounds_are_refused(kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int` >= 1 - at `\$.note_every`"):
        made(kind, note_every=0)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        made(kind, wide=True)
