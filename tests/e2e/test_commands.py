"""Commands: the person is shown exactly what runs, it runs confined or not at all, and the result is the truth."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.processes import descendants

pytestmark = pytest.mark.anyio

# Field case S1: what a machine may have in place of a working bubblewrap.
BROKEN = {
    "none": None,
    "exits 1": "#!/bin/sh\nexit 1\n",
    "says why": "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n",
    "is no program": "not a program\n",
}


def running(*lines: str, **more: Any) -> dict[str, Any]:
    """A step that runs each line; `more` are further arguments."""
    return {"calls": [call(f"c{n}", "run_command", {"command": line, **more}) for n, line in enumerate(lines, 1)]}


def path_with(folder: Path, bwrap: str | None) -> str:
    """A PATH with everything that this machine has, but for bwrap, which is `bwrap`."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(":"):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "bwrap" and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    if bwrap is not None:
        (folder / "bwrap").write_text(bwrap)
        (folder / "bwrap").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("what", BROKEN)
async def test_without_a_working_sandbox_nothing_runs_and_the_session_says_so(tmp_path: Path, what: str) -> None:
    """Field case S1: probed by running it; files still work, and the turn goes on."""
    read = call("read", "read_file", {"path": "kept"})
    step = running("printf x > effects")
    step["calls"].append(read)
    told = {"expect": ["so the command was not run"], "text": "I see."}
    folder = project(tmp_path, "one")
    env = {"PATH": path_with(tmp_path / "bin", BROKEN[what])}
    steps = play(tmp_path, [step, told])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", env=env) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        shown = editor.tool_calls(session)
        assert (shown["c1"].status, shown["read"].status) == ("failed", "completed")
        assert "bubblewrap" in shown["c1"].text
        assert editor.text(session) == "I see."
    assert StoredLog(tmp_path, session).results["c1"] == "SANDBOX_UNAVAILABLE"
    assert not (folder / "effects").exists()


async def test_without_a_working_sandbox_a_command_still_runs_where_that_was_allowed_by_name(tmp_path: Path) -> None:
    folder = project(tmp_path, "one")
    env = {"PATH": path_with(tmp_path / "bin", None)}
    step = running("printf x > effects", sandbox_permissions="danger-full-access", justification="There is none.")
    async with start_agent(
        tmp_path, screenplay=play(tmp_path, [step, text("Done.")]), permissions="allow_once", env=env
    ) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Run it.")
        assert "no sandbox" in str(editor.permissions.requests[0].tool_call["content"])
    assert (folder / "effects").read_text() == "x"


async def test_a_confined_command_has_its_folder_and_no_network_no_keys_and_nothing_else(tmp_path: Path) -> None:
    """Issue 2, item 3. What it may not do fails inside; the reasons come back to the model."""
    folder = project(tmp_path, "one")
    lines = (
        "printf x > inside && cat inside",
        "printf x > ../outside/effects",
        "cat ../../state/sessions/*/*/* 2>&1",
        "printf x > /etc/acp-bridge-test",
        "env",
        "exec 3<>/dev/tcp/127.0.0.1/9",
        "ls /sys/class/net",
    )
    secrets = {"OPENAI_API_KEY": "secret-key", "GITHUB_TOKEN": "secret-token"}
    steps = play(tmp_path, [running(*lines), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", env=secrets) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Try.")
        shown = editor.tool_calls(session)
    assert [view.status for view in shown.values()] == [
        "completed", "failed", "failed", "failed", "completed", "failed", "completed",
    ]  # fmt: skip
    assert "Read-only file system" in shown["c4"].text
    assert "secret" not in shown["c5"].text and "HOME=" in shown["c5"].text
    assert not (folder.parent / "outside" / "effects").exists()
    assert not Path("/etc/acp-bridge-test").exists()


async def test_the_whole_command_is_shown_with_what_is_invisible_made_visible_and_runs_as_it_was(
    tmp_path: Path,
) -> None:
    """Field case A5: 5 KB over many lines, with control, zero-width and right-to-left characters."""
    body = "\n".join(f"printf '%s\\n' 'line {n}' >> effects" for n in range(150))
    odd = "printf '%s' 'a\x1b[2Kb\u202ec\u200bd\re' >> effects"
    command = f"{body}\n{odd}\nprintf end >> effects"
    assert len(command) > 5000
    folder = project(tmp_path, "one")
    steps = play(tmp_path, [running(command), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Run it.")
        card = str(editor.permissions.requests[0].tool_call["content"][0]["content"]["text"])
        title = editor.permissions.requests[0].title
    for line in body.splitlines():
        assert line in card
    assert "printf end >> effects" in card
    assert not {"\x1b", "\u202e", "\u200b", "\r"} & set(card + title)
    assert all(name in card for name in ("1b", "202e", "200b")) or all(name in card for name in ("1B", "202E", "200B"))
    written = (folder / "effects").read_bytes().decode()
    assert written == "".join(f"line {n}\n" for n in range(150)) + "a\x1b[2Kb\u202ec\u200bd\re" + "end"


@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
async def test_the_answer_decides_and_the_exit_status_and_both_streams_come_back(tmp_path: Path, answer: Any) -> None:
    folder = project(tmp_path, "one")
    steps = play(tmp_path, [running("echo out; echo err >&2; printf x > effects; exit 3"), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=answer) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        view = editor.tool_calls(session)["c1"]
    assert (folder / "effects").exists() is (answer == "allow_once")
    assert all((part in view.text) is (answer == "allow_once") for part in ("out\n", "err\n", "[exit code: 3]"))


async def test_a_command_that_outlives_its_time_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    """`timeout_s` is the model's; a child in a session of its own that ignores SIGTERM goes, too (field case T3)."""
    folder = project(tmp_path, "one")
    line = "echo begun; setsid sh -c 'trap \"\" TERM; sleep 300' & trap '' TERM; sleep 300"
    steps = play(tmp_path, [running(line, timeout_s=1), {"expect": ["begun"], "text": "Done."}])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        assert descendants(editor.pid) == []
        view = editor.tool_calls(session)["c1"]
        assert view.status == "failed" and "1 s" in view.text
    assert StoredLog(tmp_path, session).results == {"c1": "TOOL_TIMEOUT"}


@pytest.mark.parametrize("path", ["sub", ".", "..", "missing"])
async def test_a_command_runs_where_it_says_or_not_at_all(tmp_path: Path, path: str) -> None:
    folder = project(tmp_path, "one")
    (folder / "sub").mkdir()
    steps = play(tmp_path, [running("pwd", cwd=path), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Where?")
        view = editor.tool_calls(session)["c1"]
    inside = path in ("sub", ".")
    assert (f"```\n{(folder / path).resolve()}\n" in view.text, view.status == "completed") == (inside, inside)
