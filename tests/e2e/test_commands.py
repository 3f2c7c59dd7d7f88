"""Commands: the person is shown exactly what runs, it runs confined or not at all, and the result is the truth."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project, snapshot
from tests.support.agent import start_agent
from tests.support.processes import descendants

pytestmark = pytest.mark.anyio

# Field case S1: what a machine may have in place of a working bubblewrap, and the mode of that file.
BROKEN: dict[str, tuple[str | None, int]] = {
    "none": (None, 0),
    "exits 1": ("#!/bin/sh\nexit 1\n", 0o755),
    "says why": ("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", 0o755),
    "claims to have run it": ("#!/bin/sh\nexit 0\n", 0o755),
    "is no program": ("not a program\n", 0o755),
    "is not executable": ("#!/bin/sh\nexit 0\n", 0o644),
}

SAYS = {
    "none": "Install bubblewrap",
    "exits 1": "exit status 1",
    "says why": "No permissions to create new namespace",
    "claims to have run it": "the command never ran",
    "is no program": "cannot be started",
    "is not executable": "Install bubblewrap",
}
SECRETS = {"OPENAI_API_KEY": "secret-key", "GITHUB_TOKEN": "secret-token", "DATABASE_PASSWORD": "secret-word"}


def running(*lines: str, **more: Any) -> dict[str, Any]:
    """A step that runs each line; `more` are further arguments."""
    return {"calls": [call(f"c{n}", "run_command", {"command": line, **more}) for n, line in enumerate(lines, 1)]}


def path_with(folder: Path, bwrap: str | None, mode: int = 0o755) -> str:
    """A PATH with everything that this machine has, but for bwrap, which is `bwrap`."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(":"):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "bwrap" and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    if bwrap is not None:
        (folder / "bwrap").write_text(bwrap)
        (folder / "bwrap").chmod(mode)
    return str(folder)


@pytest.mark.parametrize("what", BROKEN)
async def test_without_a_working_sandbox_nothing_runs_and_the_session_says_so(tmp_path: Path, what: str) -> None:
    """Field case S1: probed by running it; other tools still work, and the turn goes on."""
    step = running("printf x > effects")
    step["calls"] += [
        call("read", "read_file", {"path": "kept"}),
        call("search", "search", {"pattern": "two"}),
        call("edit", "edit_file", {"path": "other", "old_text": "two", "new_text": "2"}),
    ]
    told = {"expect": ["so the command"], "text": "I see."}
    folder = project(tmp_path, "one")
    env = {"PATH": path_with(tmp_path / "bin", *BROKEN[what])}
    steps = play(tmp_path, [step, told])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", env=env) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        shown = editor.tool_calls(session)
        assert {id: view.status for id, view in shown.items()} == {
            "c1": "failed", "read": "completed", "search": "completed", "edit": "completed",
        }  # fmt: skip
        assert SAYS[what] in shown["c1"].text
        assert editor.text(session) == "I see."
    assert StoredLog(tmp_path, session).results["c1"] == "SANDBOX_UNAVAILABLE"
    assert not (folder / "effects").exists()


async def test_a_sandbox_that_breaks_in_mid_session_is_noticed_at_the_next_command(tmp_path: Path) -> None:
    """Field case S1: namespaces are switched off behind a probe that succeeded."""
    folder = project(tmp_path, "one")
    real, fakes, broken = shutil.which("bwrap"), tmp_path / "bin", tmp_path / "broken"
    fakes.mkdir()
    (fakes / "bwrap").write_text(f'#!/bin/sh\ntest -e {broken} && exit 1\nexec {real} "$@"\n')
    (fakes / "bwrap").chmod(0o755)
    env = {"PATH": f"{fakes}:{os.environ['PATH']}"}
    lines = [running("printf x >> effects")["calls"][0] | {"id": f"c{n}"} for n in range(3)]
    steps = play(tmp_path, [{"calls": lines[:1]}, text("Done.")], [{"calls": lines[1:]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", env=env) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Run it.")
        broken.touch()
        assert (await editor.prompt(session, "Again.")).stop_reason == "end_turn"
        assert (folder / "effects").read_text() == "x"
    assert StoredLog(tmp_path, session).results == {
        "c0": "ok", "c1": "SANDBOX_UNAVAILABLE", "c2": "SANDBOX_UNAVAILABLE",
    }  # fmt: skip


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
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"
        lines = {
            "printf x > inside && cat inside": "completed",
            "printf x > ../outside/effects": "failed",
            "rm ../outside/secret": "failed",
            "cat ../../state/sessions/*/*/*": "failed",
            "printf x > /etc/acp-bridge-test": "failed",
            "env; cat /proc/*/environ": "completed",
            connect: "failed",
        }
        wider = {"sandbox_permissions": "danger-full-access", "justification": "Is anybody there?"}
        bare = call("bare", "run_command", {"command": connect, **wider})
        steps = play(tmp_path, [running(*lines), text("Done.")], [{"calls": [bare]}, text("Done.")])
        async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", env=SECRETS) as editor:
            session = await editor.new_session(folder)
            await editor.prompt(session, "Try.")
            shown = list(editor.tool_calls(session).values())
            with pytest.raises(BlockingIOError):
                listener.accept()
            # Somebody was there to be reached.
            await editor.prompt(session, "Try without.")
            assert editor.tool_calls(session)["bare"].status == "completed"
            listener.accept()[0].close()
    assert [view.status for view in shown] == list(lines.values())
    assert "Read-only file system" in shown[4].text
    assert "HOME=" in shown[5].text
    assert not [view.id for view in shown if "secret-" in view.text]
    assert snapshot(folder.parent / "outside") == {"secret": b"the secret\n"}
    assert not Path("/etc/acp-bridge-test").exists()


@pytest.mark.parametrize("mode", ["ask", "full-access"])
async def test_no_key_of_the_agent_reaches_a_command_with_or_without_a_sandbox(tmp_path: Path, mode: str) -> None:
    """Design §12, field case D10: the environment of a command is the person's, without what names a secret."""
    folder = project(tmp_path, "one")
    steps = play(tmp_path, [running("env; echo $OPENAI_API_KEY"), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", env=SECRETS) as editor:
        session = await editor.new_session(folder)
        await editor.agent.set_session_mode(session, mode)
        await editor.prompt(session, "Try.")
        view = editor.tool_calls(session)["c1"]
    assert (view.status, "HOME=" in view.text, "secret-" in view.text) == ("completed", True, False)


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
