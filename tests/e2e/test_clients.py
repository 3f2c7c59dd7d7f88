"""The agent as particular editors drive it: their ids, their pipelining, their odd params and their environment."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lines import answers, answers_to, line, notification, request, text_prompt
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog, decoded
from tests.support.agent import AGENT, start_agent
from tests.support.editor import Editor
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

ZED = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}
UUID = "3f2b8c1e-0000-4000-8000-00000000000"
TIME_LIMIT_S = 5.0  # the registry's, per method (editors §7)


async def _result(editor: Editor, id: Any, since: int = 0) -> Any:
    frame = await editor.wait_for(answers_to(id), since=since)
    message = mapping(frame.message)
    assert "result" in message, message
    return message["result"]


async def test_zed_cancels_and_prompts_again_in_one_breath_with_texts_as_ids(tmp_path: Path) -> None:
    """Editors §6.1: the next prompt waits for the old response with no timeout; ids are UUIDs as text."""
    steps = play(tmp_path, [text("One ", {"wait_for_file": "never"})], [{"expect": "lib.rs#L10:20", "text": "Two."}])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        info = {"name": "zed", "title": "Zed", "version": "0.200.0"}
        hello = request(f"{UUID}1", "initialize", protocolVersion=1, clientCapabilities=ZED, clientInfo=info)
        await editor.send_raw(hello)
        assert (await _result(editor, f"{UUID}1"))["protocolVersion"] == 1
        await editor.send_raw(request(f"{UUID}2", "session/new", cwd=str(tmp_path), mcpServers=[]))
        session = (await _result(editor, f"{UUID}2"))["sessionId"]
        await editor.send_raw(text_prompt(f"{UUID}3", session, "Count."))
        await editor.wait_until(lambda: editor.text(session) == "One ")
        mentions = [
            {"type": "text", "text": "And "},
            {"type": "resource_link", "name": "lib.rs", "uri": f"file://{tmp_path}/a%20b/lib.rs#L10:20"},
            {"type": "resource_link", "name": "Thread", "uri": "zed:///agent/thread/42?name=Other"},
        ]
        cancel = notification("session/cancel", sessionId=session)
        again = request(f"{UUID}4", "session/prompt", sessionId=session, prompt=mentions)
        await editor.send_raw(cancel + again)
        assert await _result(editor, f"{UUID}4") == {"stopReason": "end_turn"}
        assert await _result(editor, f"{UUID}3") == {"stopReason": "cancelled"}
        assert [frame.id for frame in answers(editor.frames)] == [f"{UUID}{number}" for number in (1, 2, 3, 4)]
        assert editor.text(session).endswith("Two.")
        said = StoredLog(tmp_path, session).of("user/message")[-1]["content"][0]["text"]
        assert said == f"And [lib.rs]({tmp_path}/a b/lib.rs#L10:20)[Thread](zed:///agent/thread/42?name=Other)"
        assert editor.stderr == ""


async def test_zed_withdraws_a_prompt_by_its_request_id(tmp_path: Path) -> None:
    """ACP: $/cancel_request with a text id; the prompt is answered `cancelled`, no error."""
    steps = play(tmp_path, [text("One ", {"wait_for_file": "never"})])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        await editor.send_raw(text_prompt(UUID, session, "Count."))
        await editor.wait_until(lambda: editor.text(session) == "One ")
        await editor.send_raw(notification("$/cancel_request", requestId=UUID))
        assert await _result(editor, UUID) == {"stopReason": "cancelled"}


async def test_marimo_asks_for_a_session_before_initialize_was_answered(tmp_path: Path) -> None:
    """Editors §6.11: pipelined, then authenticate with the first method, prompts with plain paths and resources."""
    (tmp_path / "home").mkdir()
    rules = {"uri": "marimo_rules.md", "mimeType": "text/markdown", "text": "Use polars."}
    blocks = [
        {"type": "text", "text": "Plot it."},
        {"type": "resource", "resource": rules},
        {"type": "resource_link", "uri": "notebooks/plot one.py", "name": "plot one.py"},
    ]
    expected = ["Use polars.", "[plot one.py](notebooks/plot one.py)"]
    async with start_agent(tmp_path, screenplay=play(tmp_path, [{"expect": expected, "text": "Done."}])) as editor:
        fs = {"fs": {"readTextFile": True, "writeTextFile": True}}
        new = {"cwd": str(tmp_path), "mcpServers": [], "_meta": {"model": "some-model"}}
        hello = request(0, "initialize", protocolVersion=1, clientCapabilities=fs)
        await editor.send_raw(hello + request(1, "session/new", new))
        session = (await _result(editor, 1))["sessionId"]
        first = (await _result(editor, 0))["authMethods"][0]["id"]
        await editor.send_raw(request(2, "authenticate", methodId=first))
        assert await _result(editor, 2) == {}
        await editor.send_raw(request(3, "session/prompt", sessionId=session, prompt=blocks))
        assert await _result(editor, 3) == {"stopReason": "end_turn"}
        assert editor.text(session) == "Done."


async def test_qt_creator_asks_for_version_2_with_both_families_of_params_and_is_served_version_1(
    tmp_path: Path,
) -> None:
    """Editors §6.12, rule 29: unknown members are ignored. And what other versions a client may ask for."""
    info = {"name": "QtCreator", "version": "1.0"}
    both = {
        "protocolVersion": 2,
        "clientInfo": info,
        "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
        "info": info,
        "capabilities": {"elicitation": {"form": {}, "url": {}}, "session": {"configOptions": {"boolean": {}}}},
    }
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        await editor.send_raw(request(1, "initialize", both))
        result = await _result(editor, 1)
        assert result["protocolVersion"] == 1
        assert result["agentCapabilities"]["loadSession"] is True
        await editor.send_raw(request(2, "session/new", cwd=str(tmp_path), mcpServers=[]))
        session = (await _result(editor, 2))["sessionId"]
        assert (await editor.prompt(session, "Hello?")).stop_reason == "end_turn"
        for version in (0, 1, 3, 65535):
            response = await editor.request("initialize", {"protocolVersion": version})
            assert response["result"]["protocolVersion"] == 1


async def test_toad_bounces_updates_with_an_error_for_nobody_and_embeds_without_asking(tmp_path: Path) -> None:
    """Editors §6.9: `{"id":null,"error":…}` is ignored, in the middle of a turn too; load answers an object."""
    bounce = line({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "Invalid params"}})
    embedded = {"uri": f"file://{tmp_path}/a.txt", "mimeType": "text/plain", "text": "content of a"}
    blob = {"uri": f"file://{tmp_path}/b.bin", "mimeType": "application/octet-stream", "blob": "AAEC"}
    blocks = [{"type": "text", "text": "See @a.txt"}] + [{"type": "resource", "resource": r} for r in (embedded, blob)]
    steps = play(tmp_path, [{"expect": "content of a", "text": ["One ", {"wait_for_file": "go"}, "two."]}])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        await editor.send_raw(bounce + request("p", "session/prompt", sessionId=session, prompt=blocks))
        await editor.wait_until(lambda: editor.text(session) == "One ")
        await editor.send_raw(bounce * 3)
        (tmp_path / "go").touch()
        assert await _result(editor, "p") == {"stopReason": "end_turn"}
        await editor.send_raw(request("load", "session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[]))
        assert isinstance(await _result(editor, "load"), dict)
        given = {frame.id for frame in answers(editor.frames)}
        assert None not in given
        assert editor.stderr == ""


PROBES: dict[str, tuple[Any, set[int | None]]] = {
    "initialize": ({"protocolVersion": 1, "clientCapabilities": {"fs": {}, "terminal": True}}, {None}),
    "session/new": ({"cwd": "/", "mcpServers": []}, {-32000}),
    "session/list": ({}, {None}),
    "session/load": ({"sessionId": "matrix", "cwd": "/", "mcpServers": []}, {-32002}),
    "session/fork": ({"sessionId": "matrix", "cwd": "/", "mcpServers": []}, {-32601}),
    "session/resume": ({"sessionId": "matrix", "cwd": "/", "mcpServers": []}, {-32601}),
    "session/set_model": ({"sessionId": "matrix", "modelId": "matrix-model"}, {-32601}),
    "session/close": ({"sessionId": "matrix"}, {-32002}),
}


async def test_the_registry_probes_every_method_in_an_empty_home(tmp_path: Path) -> None:
    """Editors §7: unauthenticated, 5 s for each method, only JSON on stdout, at least one method to authenticate."""
    home = tmp_path / "home"
    home.mkdir()
    env = {"ACP_BRIDGE_STATE_DIR": "", "HOME": str(home)}
    async with start_agent(tmp_path, env=env) as editor:
        for method, (params, codes) in PROBES.items():
            begun = time.monotonic()
            response = await editor.request(method, params, timeout=TIME_LIMIT_S)
            assert time.monotonic() - begun < TIME_LIMIT_S
            assert (method, mapping(response.get("error")).get("code") in codes) == (method, True), response
            if method == "initialize":
                assert [entry.get("type", "agent") for entry in response["result"]["authMethods"]] == ["agent"]
        assert editor.stderr == ""
    assert editor.returncode == 0


def _agent_at_home(tmp_path: Path, home: Path | None) -> list[str]:
    """The agent where this user's account says that `home` is home, or where there is no account at all."""
    me = pwd.getpwuid(os.getuid())
    account = "" if home is None else f"{me.pw_name}:x:{me.pw_uid}:{me.pw_gid}::{home}:/bin/sh\n"
    # Other sources than the file know root everywhere.
    files = {"/etc/passwd": account, "/etc/nsswitch.conf": "passwd: files\n"}
    binds: list[str] = []
    for place, content in files.items():
        if Path(place).exists():
            fake = tmp_path / Path(place).name
            fake.write_text(content)
            binds += ["--ro-bind", str(fake), place]
    return ["bwrap", "--dev-bind", "/", "/", *binds, "--", *AGENT]


async def test_a_nearly_empty_environment_is_enough(tmp_path: Path) -> None:
    """Editors rule 26: agentic.nvim and avante pass PATH alone. No HOME, no locale; names and texts are not ASCII."""
    home, project = tmp_path / "höme", tmp_path / "Grüße 🦀"
    home.mkdir()
    project.mkdir()
    (project / "é.txt").write_text("Ünïcödé\n")
    steps = play(
        tmp_path, [{"calls": [call("c1", "read_file", {"path": "é.txt"})]}, {"expect": "Ünïcödé", "text": "Ja ✓"}]
    )
    env = {"PATH": os.environ["PATH"], "ACP_BRIDGE_MODEL": f"scripted/{steps}"}
    async with Editor.start(_agent_at_home(tmp_path, home), env=env, cwd=project) as editor:
        session = await editor.new_session(project)
        assert (await editor.prompt(session, "Liest du das? 🦀")).stop_reason == "end_turn"
        assert editor.text(session) == "Ja ✓"
        assert editor.stderr == ""
    (log,) = home.glob(".local/state/acp-bridge/sessions/*/*/session.v1.jsonl.zstd")
    assert decoded(log.read_bytes())[0]["cwd"] == str(project)
    assert sorted(path.name for path in project.iterdir()) == ["é.txt"]


async def test_without_any_home_the_agent_says_what_to_set_and_writes_nothing(tmp_path: Path) -> None:
    """A container user without an account: `~` must not become a folder of the project."""
    project = tmp_path / "project"
    project.mkdir()
    env = {"PATH": os.environ["PATH"]}
    async with Editor.start(_agent_at_home(tmp_path, None), env=env, cwd=project, check=False) as editor:
        assert await editor.wait_exit() == 1
        await editor.wait_until(lambda: editor.stderr)
        assert editor.stderr == (
            "acp-bridge: environment: ACP_BRIDGE_STATE_DIR: is not set, and this user has no home directory.\n"
        )
        assert editor.frames == []
    assert list(project.iterdir()) == []
