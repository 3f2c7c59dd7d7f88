"""Params that a method cannot serve: -32602 with the offending member named, and nothing else happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from tests.e2e.lines import answers, code_of, notification, request
from tests.e2e.plays import play, text
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

BAD_PARAMS, NOT_FOUND = -32602, -32002
DATA = "iVBORw0KGgo="

SERVED: dict[str, Any] = {
    "initialize": schema.InitializeRequest,
    "authenticate": schema.AuthenticateRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/list": schema.ListSessionsRequest,
    "session/prompt": schema.PromptRequest,
    "session/close": schema.CloseSessionRequest,
    "session/set_mode": schema.SetSessionModeRequest,
}

# Required by the schema and dispensable here: an editor without MCP servers may leave the key out, or write null.
LENIENT = "mcpServers"

# A value of every JSON type.
VALUES: dict[str, Any] = {
    "string": "x",
    "integer": 7,
    "number": 7.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def good_params(session: str, folder: Path) -> dict[str, Any]:
    """Right for every member that a served method has."""
    return {
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
        "methodId": "environment",
        "cwd": str(folder),
        "mcpServers": [],
        "additionalDirectories": [],
        "sessionId": session,
        "cursor": None,
        "prompt": [{"type": "text", "text": "Hello."}],
        "modeId": "ask",
    }


def types(member: dict[str, Any]) -> set[str]:
    """The JSON types that a member of a schema may have."""
    if "$ref" in member:
        return {"object"}
    found = {member["type"]} if "type" in member else set()
    return found.union(*(types(other) for other in member.get("anyOf", [])))


def wrong_params(method: str, good: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each member that the schema knows, with every type that it does not allow, and left out where it is required."""
    model = SERVED[method].model_json_schema()
    members = {name: member for name, member in model["properties"].items() if name != "_meta"}
    whole = {name: good[name] for name in members}
    for name, member in members.items():
        for kind in VALUES.keys() - types(member) - ({"null"} if name == LENIENT else set()):
            yield name, whole | {name: VALUES[kind]}
        if name in model.get("required", []) and name != LENIENT:
            yield name, {other: value for other, value in whole.items() if other != name}


async def _sessions(editor: Editor) -> int:
    return len((await editor.request("session/list"))["result"]["sessions"])


async def _refused(editor: Editor, method: str, params: Any) -> tuple[int, str | None]:
    """Code and field of the error."""
    response = await editor.request(method, params)
    error = response.get("error")
    assert error is not None, f"{method} was served with {params}"
    assert error["message"].endswith(".")
    assert "\n" not in error["message"]
    return error["code"], mapping(error.get("data")).get("field")


@pytest.mark.parametrize("method", SERVED)
async def test_a_member_of_the_wrong_type_or_missing_is_named(tmp_path: Path, method: str) -> None:
    """Bad input, as a kind: made from the official schema, every member of every method and every JSON type."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        session = await editor.new_session(tmp_path)
        for field, params in wrong_params(method, good_params(session, tmp_path)):
            assert (params, await _refused(editor, method, params)) == (params, (BAD_PARAMS, field))
        if method != "session/list":
            whole: Any
            for whole in ([], ["x"], {}):
                assert (await _refused(editor, method, whole))[0] == BAD_PARAMS
        assert await _sessions(editor) == 1
        assert (await editor.prompt(session, "Still there?")).stop_reason == "end_turn"
        assert editor.text(session) == "Hello."
        assert editor.stderr == ""


BLOCKS: dict[str, Any] = {
    "prompt": [],
    "prompt[0]": ["text"],
    "prompt[0].type": [{"text": "no type"}],
    "prompt[1].type": [{"type": "text", "text": "x"}, {"type": "video", "data": DATA}],
    "prompt[0].text": [{"type": "text"}],
    "prompt[1].text": [{"type": "text", "text": "x"}, {"type": "text", "text": ["x"]}],
    "prompt[0].uri": [{"type": "resource_link", "name": "x"}],
    "prompt[0].resource": [{"type": "resource"}],
    "prompt[0].resource.uri": [{"type": "resource", "resource": {"text": "x"}}],
}
UNADVERTISED: list[Any] = [
    [{"type": "text", "text": "x"}, {"type": "image", "data": DATA, "mimeType": "image/png"}],
    [{"type": "text", "text": "x"}, {"type": "audio", "data": DATA, "mimeType": "audio/wav"}],
]


async def test_a_prompt_with_a_bad_block_is_refused_whole(tmp_path: Path) -> None:
    """Blocks of no type, of a type that was not offered, without their content; blank prompts."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        session = await editor.new_session(tmp_path)
        for field, blocks in BLOCKS.items():
            params = {"sessionId": session, "prompt": blocks}
            assert await _refused(editor, "session/prompt", params) == (BAD_PARAMS, field)
        for blocks in UNADVERTISED:
            params = {"sessionId": session, "prompt": blocks}
            assert await _refused(editor, "session/prompt", params) == (BAD_PARAMS, "prompt[1]")
        for blank in ("", "   ", "\n\t"):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": blank}]}
            assert await _refused(editor, "session/prompt", params) == (BAD_PARAMS, "prompt")
        assert editor.updates(session) == []
        assert (await editor.prompt(session, "Hello?")).stop_reason == "end_turn"


async def test_a_cwd_that_is_no_usable_directory_is_refused(tmp_path: Path) -> None:
    """session/new and session/load: relative, missing, a file, no name at all, longer than the system takes."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    names = ["", ".", "relative", "~", "file:///", "/no/such/folder", "/nul\0", "/" + "x" * 300, "/x" * 5000]
    names += [str(tmp_path / name) for name in ("file", "file/below", "loop", "gone")] + ["/\ud800"]
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        session = await editor.new_session(tmp_path)
        await editor.request("session/close", {"sessionId": session})
        for cwd in names:
            for method in ("session/new", "session/load"):
                params = {"cwd": cwd, "mcpServers": [], "sessionId": session}
                assert (cwd, (await _refused(editor, method, params))[0]) == (cwd, BAD_PARAMS)
        for roots in (["relative"], [str(tmp_path)], [7]):
            more = {"cwd": str(tmp_path), "mcpServers": [], "additionalDirectories": roots}
            assert (await _refused(editor, "session/new", more))[0] == BAD_PARAMS
        assert await _sessions(editor) == 1
        await editor.load_session(session, tmp_path)


@pytest.mark.parametrize("method", ["session/load", "session/prompt", "session/close", "session/set_mode"])
async def test_an_id_that_names_no_session_is_not_found_whatever_it_looks_like(tmp_path: Path, method: str) -> None:
    """Ids are the client's text: paths, parents, empty, too long for a file name, control characters."""
    ids = ["", ".", "..", "../../etc/passwd", "/etc", "a/b", "x" * 300, "é" * 200, "\0", "\n", "no-such-session", "~"]
    (tmp_path / "state" / "sessions").mkdir(parents=True)
    outside = os.listdir(tmp_path)
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        live = await editor.new_session(tmp_path)
        for id in [*ids, live.upper(), live + " ", f"{live}/", live[:-1]]:
            params = good_params(id, tmp_path)
            response = await editor.request(method, params)
            assert (id, response["error"]["code"]) == (id, NOT_FOUND)
            assert response["error"]["message"].startswith("Session not found")
        since = len(editor.frames)
        await editor.send_raw(b"".join(notification("session/cancel", sessionId=id) for id in ids))
        assert (await editor.prompt(live, "Hello?")).stop_reason == "end_turn"
        assert len(answers(editor.frames[since:])) == 1
        assert editor.stderr == ""
    assert sorted([*outside, "home", "play.json"]) == sorted(os.listdir(tmp_path))


async def test_a_cursor_that_is_not_ours_and_a_mode_that_is_not_there_are_refused(tmp_path: Path) -> None:
    """ACP: session/list, session/set_mode. The modes are named, for whoever wrote the configuration."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        session = await editor.new_session(tmp_path)
        for cursor in ("x", "0", "####", "bm9uZQ==", "W10=", "WzEsMl0=", "W251bGwsIngiXQ==", "é"):
            assert (cursor, await _refused(editor, "session/list", {"cursor": cursor})) == (
                cursor,
                (BAD_PARAMS, "cursor"),
            )
        for mode in ("", "no-such-mode", "Ask", "ask "):
            response = await editor.request("session/set_mode", {"sessionId": session, "modeId": mode})
            assert response["error"]["code"] == BAD_PARAMS
            assert "read-only, ask, auto-edit, full-access" in response["error"]["message"]
        for method in ("", "no-such-method", "openai", "Environment"):
            assert await _refused(editor, "authenticate", {"methodId": method}) == (BAD_PARAMS, "methodId")
        await editor.send_raw(request("last", "session/list"))
        await editor.wait_for(lambda frame: frame.id == "last")
        assert code_of(editor.frames, "last") is None
