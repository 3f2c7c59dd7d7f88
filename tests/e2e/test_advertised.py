"""What initialize promises is there, what it does not promise answers -32601, and an old id is never a new session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acp.meta import AGENT_METHODS

from tests.e2e.lines import notification
from tests.e2e.plays import play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

UNKNOWN_METHOD, NOT_FOUND = -32601, -32002

# What a client may call by the capability that allows it (ACP: schema v1); the rest needs none.
BY_CAPABILITY = {
    "session/load": ("loadSession",),
    "session/list": ("sessionCapabilities", "list"),
    "session/close": ("sessionCapabilities", "close"),
    "session/resume": ("sessionCapabilities", "resume"),
    "session/delete": ("sessionCapabilities", "delete"),
    "session/fork": ("sessionCapabilities", "fork"),
    "logout": ("auth", "logout"),
}
ALWAYS = [
    "initialize",
    "authenticate",
    "session/new",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
]
NOTIFICATIONS = ["session/cancel"]
# Removed from the schema, ahead of it, extensions of some editor, the client's own methods, and nonsense.
FOREIGN = [
    "session/set_model",
    "_session/steering",
    "auth/login",
    "fs/read_text_file",
    "session/update",
    "terminal/create",
    "rpc.discover",
    "Initialize",
    "session/New",
]


def _has(capabilities: dict[str, Any], path: tuple[str, ...]) -> bool:
    value: Any = capabilities
    for key in path:
        value = mapping(value).get(key)
    return value is True or isinstance(value, dict)


def _params(session: str, folder: Path) -> dict[str, Any]:
    return {
        "protocolVersion": 1,
        "sessionId": session,
        "cwd": str(folder),
        "mcpServers": [],
        "modeId": "ask",
        "configId": "mode",
        "value": "ask",
        "methodId": "environment",
        "prompt": [{"type": "text", "text": "Hello."}],
    }


async def _code(editor: Editor, method: str, params: Any) -> int | None:
    """The error code, None for a result."""
    response = await editor.request(method, params)
    code: int | None = mapping(response.get("error")).get("code")
    return code


async def test_every_advertised_method_is_served_and_every_other_is_not_found(tmp_path: Path) -> None:
    """Field case P11: all methods that the official schema knows, and some that it does not, each called once."""
    steps = play(tmp_path, [text("Hello.")], [text("Still here.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        capabilities = (await editor.request("initialize", {"protocolVersion": 1}))["result"]["agentCapabilities"]
        session = await editor.new_session(tmp_path)
        served = [*ALWAYS, *(method for method, path in BY_CAPABILITY.items() if _has(capabilities, path))]
        unserved = sorted({*AGENT_METHODS.values(), *BY_CAPABILITY, *FOREIGN} - {*served, *NOTIFICATIONS})
        params = _params(session, tmp_path)
        for method in unserved:
            assert (method, await _code(editor, method, params)) == (method, UNKNOWN_METHOD)
        for method in sorted(served, key="session/close".__eq__):
            assert (method, await _code(editor, method, params)) == (method, None)
        await editor.load_session(session, tmp_path)
        assert (await editor.prompt(session, "Still there?")).stop_reason == "end_turn"
        assert editor.stderr == ""
    assert {"session/load", "session/list", "session/close"} <= set(served)
    assert {"session/resume", "session/fork", "session/delete", "logout", "session/set_model"} <= set(unserved)


async def test_prompt_capabilities_say_what_a_prompt_may_hold(tmp_path: Path) -> None:
    """Field case P11: images and audio are not advertised and refused; text and links always work."""
    link = {"type": "resource_link", "uri": "file:///etc/hostname", "name": "hostname"}
    blocks = {"image": {"type": "image", "data": "AA==", "mimeType": "image/png"}}
    blocks["audio"] = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
    steps = play(tmp_path, [{"expect": "[hostname](/etc/hostname)", "text": "Hello."}])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        capabilities = (await editor.request("initialize", {"protocolVersion": 1}))["result"]["agentCapabilities"]
        session = await editor.new_session(tmp_path)
        for name, block in blocks.items():
            assert name not in capabilities["promptCapabilities"]
            assert await _code(editor, "session/prompt", {"sessionId": session, "prompt": [block]}) == -32602
        assert await _code(editor, "session/prompt", {"sessionId": session, "prompt": [link]}) is None


async def test_an_old_id_is_not_found_until_it_is_loaded(tmp_path: Path) -> None:
    """Field case P11: killed, started again, and everything tried without a load: no blank session under that id."""
    steps = play(tmp_path, [text("One.")], [text("Two.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, "First.")
        editor.kill()
        await editor.wait_exit()
    log = StoredLog(tmp_path, session)
    stored = log.bytes
    async with start_agent(tmp_path, screenplay=steps) as editor:
        await editor.initialize()
        for method in ("session/prompt", "session/set_mode", "session/close"):
            error = (await editor.request(method, _params(session, tmp_path)))["error"]
            assert (method, error["code"]) == (method, NOT_FOUND)
            assert error["message"] == f"Session not found: {session}"
        await editor.send_raw(notification("session/cancel", sessionId=session))
        listed = (await editor.request("session/list"))["result"]["sessions"]
        assert [info["sessionId"] for info in listed] == [session]
        assert log.bytes == stored
        await editor.load_session(session, tmp_path)
        assert editor.text(session) == "One."
        assert (await editor.prompt(session, "Second.")).stop_reason == "end_turn"
        assert editor.text(session) == "One.Two."


async def test_a_closed_session_is_not_found_and_loads_again(tmp_path: Path) -> None:
    """ACP: session/close frees the session and keeps it; closing twice is told apart from closing."""
    steps = play(tmp_path, [text("One ", {"wait_for_file": "never"})], [text("Two.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "First.")
        await editor.wait_until(lambda: editor.text(session) == "One ")
        assert await _code(editor, "session/close", {"sessionId": session}) is None
        assert (await turn.result()).stop_reason == "cancelled"
        for method in ("session/prompt", "session/set_mode", "session/close"):
            assert await _code(editor, method, _params(session, tmp_path)) == NOT_FOUND
        await editor.load_session(session, tmp_path)
        assert (await editor.prompt(session, "Second.")).stop_reason == "end_turn"
    assert StoredLog(tmp_path, session).endings == ["aborted", "completed"]
