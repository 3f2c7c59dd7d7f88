"""Any bytes on stdin: the offending request gets its one error, the connection and every session live on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.lines import answers, answers_to, code_of, line, notification, request, text_prompt
from tests.e2e.plays import play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

PARSE, INVALID, UNKNOWN_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602

# Each line, and the id and code of its one answer.
REFUSED: dict[bytes, tuple[Any, int]] = {
    b"garbage": (None, PARSE),
    b"{": (None, PARSE),
    b'{"jsonrpc":"2.0","id":"cut","method":"session/list","params":{': ("cut", PARSE),
    b'{"jsonrpc":"2.0","id":"nan","method":"session/list","params":{"cwd":NaN}}': ("nan", PARSE),
    b'{"jsonrpc":"2.0","id":"two","method":"session/list"} {"jsonrpc":"2.0"}': ("two", PARSE),
    b"{'id':'quotes'}": (None, PARSE),
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"bom","method":"session/list"}': (None, PARSE),
    b'{"jsonrpc":"2.0","id":"latin","method":"session/list","params":{"cwd":"\xe9"}}': ("latin", PARSE),
    b'{"jsonrpc":"2.0","id":"nul\x00","method":"session/list"}': (None, PARSE),
    b'{"jsonrpc":"2.0","id":"deep","method":"session/list","params":' + b"[" * 100_000: ("deep", PARSE),
    b"\x00\xff\xfe\x80": (None, PARSE),
    b"[]": (None, INVALID),
    b'[{"jsonrpc":"2.0","id":"batch","method":"session/list"}]': (None, INVALID),
    b"null": (None, INVALID),
    b"17": (None, INVALID),
    b'"text"': (None, INVALID),
    b"{}": (None, INVALID),
    b'{"id":"bare"}': ("bare", INVALID),
    b'{"jsonrpc":"1.0","id":"old","method":"session/list"}': ("old", INVALID),
    b'{"jsonrpc":2,"id":"number","method":"session/list"}': ("number", INVALID),
    b'{"jsonrpc":"2.0","id":"m1","method":7}': ("m1", INVALID),
    b'{"jsonrpc":"2.0","id":"m2","method":null}': ("m2", INVALID),
    b'{"jsonrpc":"2.0","id":"m3","method":["session/list"]}': ("m3", INVALID),
    b'{"jsonrpc":"2.0","id":"p1","method":"session/list","params":"cwd"}': ("p1", INVALID),
    b'{"jsonrpc":"2.0","id":"p2","method":"session/list","params":7}': ("p2", INVALID),
    b'{"jsonrpc":"2.0","id":true,"method":"session/list"}': (None, INVALID),
    b'{"jsonrpc":"2.0","id":[1],"method":"session/list"}': (None, INVALID),
    b'{"jsonrpc":"2.0","id":{"a":1},"method":"session/list"}': (None, INVALID),
    b'{"jsonrpc":"2.0","id":"d1","method":"session/list","method":"session/new"}': ("d1", INVALID),
    b'{"jsonrpc":"2.0","id":"d2","id":"d3","method":"session/list"}': (None, INVALID),
    request("none", "no/such"): ("none", UNKNOWN_METHOD),
    request("", "session/list "): ("", UNKNOWN_METHOD),
    request("empty", ""): ("empty", UNKNOWN_METHOD),
    request("array", "session/list", []): ("array", BAD_PARAMS),
    # Methods that are notifications, asked as requests.
    request("cancel", "session/cancel", sessionId="x"): ("cancel", UNKNOWN_METHOD),
    request("$", "$/cancel_request", requestId=1): ("$", UNKNOWN_METHOD),
}

SILENT = [
    b"",
    b"   ",
    b"\r",
    b"\t",
    b'{"jsonrpc":"2.0","id":4711,"result":{}}',
    b'{"jsonrpc":"2.0","id":"never-asked","result":null}',
    b'{"jsonrpc":"2.0","id":4711,"error":{"code":1,"message":"no"}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"a client that did not understand an update"}}',
    b'{"jsonrpc":"2.0","id":4711,"error":"text"}',
    b'{"jsonrpc":"2.0","id":[],"result":{}}',
    b'{"jsonrpc":"2.0","result":{}}',
    b'{"jsonrpc":"2.0","id":4711,"result":{}',
    notification("no/such", a=1),
    notification("session/cancel"),
    notification("session/cancel", sessionId=7),
    notification("session/cancel", sessionId="no-such-session"),
    notification("$/cancel_request"),
    notification("$/cancel_request", requestId="no-such-request"),
    notification("$/cancel_request", requestId=[]),
    # Requests without an id are notifications: nobody could be answered, so nothing is done.
    notification("session/new", cwd="/"),
    notification("initialize", protocolVersion=1),
]


async def _after(editor: Editor, since: int, count: int) -> Counter[tuple[Any, int | None]]:
    """The `count` answers that came from frame `since` on, as ids and codes; all of them, since a request follows."""
    await editor.request("session/list", id=f"after-{since}")
    await editor.wait_until(lambda: len(answers(editor.frames[since:])) > count)
    found = [mapping(frame.message) for frame in answers(editor.frames[since:])]
    return Counter(
        (json.dumps(message["id"]), mapping(message.get("error")).get("code"))
        for message in found
        if message["id"] != f"after-{since}"
    )


async def test_a_bad_line_gets_one_error_while_a_turn_runs_on_undisturbed(tmp_path: Path) -> None:
    """Bad input: malformed JSON, wrong types, arrays, bad ids, unknown methods, notifications with ids."""
    steps = play(tmp_path, [text("Hello.")], [text("One ", {"wait_for_file": "go"}, "two.")], [text("Again.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session, other = await editor.new_session(tmp_path), await editor.new_session(tmp_path)
        await editor.prompt(session, "Hello.")
        turn = editor.start_prompt(session, "Count.")
        await editor.wait_until(lambda: editor.text(session) == "Hello.One ")
        since = len(editor.frames)
        for bad in REFUSED:
            await editor.send_raw(bad.removesuffix(b"\n") + b"\n")
        wanted = Counter((json.dumps(id), code) for id, code in REFUSED.values())
        assert await _after(editor, since, len(REFUSED)) == wanted
        for frame in answers(editor.frames[since:]):
            message = mapping(mapping(frame.message).get("error")).get("message", "A result.")
            assert message.endswith(".")
            assert "Traceback" not in message
        assert (await editor.prompt(other, "Hello.")).stop_reason == "end_turn"
        (tmp_path / "go").touch()
        assert (await turn.result()).stop_reason == "end_turn"
        assert editor.text(session) == "Hello.One two."
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        assert editor.stderr == ""
    assert StoredLog(tmp_path, session).endings == ["completed"] * 3


async def test_lines_that_ask_nothing_get_no_answer_and_change_nothing(tmp_path: Path) -> None:
    """Blank lines, answers nobody waits for, unknown notifications, requests without an id (toad, editors rule 5)."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Here.")])) as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        for silent in SILENT:
            await editor.send_raw(silent.removesuffix(b"\n") + b"\n")
        assert await _after(editor, since, 0) == Counter()
        assert [frame for frame in editor.frames[since:] if frame.sender == "agent" and not frame.is_response] == []
        assert (await editor.prompt(session, "There?")).stop_reason == "end_turn"
        assert editor.stderr == ""
    assert len(list((tmp_path / "state" / "sessions").glob("*/*"))) == 1


async def test_an_id_is_echoed_as_it_was_sent_and_only_one_request_at_a_time_may_use_it(tmp_path: Path) -> None:
    """Editors rule 5; bad input: duplicate ids. Big, negative, broken and null numbers, and texts of any kind."""
    ids = ["0", "-1", "1.5", "1e2", "12345678901234567890", "null", '""', '"1"', '"\\u0061\\n"', '"\u2028"', '"🦀"']
    steps = play(tmp_path, [text({"wait_for_file": "go"}, "Done.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        for id in ids:
            await editor.send_raw(b'{"jsonrpc":"2.0","id":%b,"method":"session/list"}\n' % id.encode())
        await editor.wait_until(lambda: len(answers(editor.frames[since:])) == len(ids))
        echoed = [frame.raw.partition(b',"result":')[0] for frame in answers(editor.frames[since:])]
        assert sorted(echoed) == sorted(b'{"jsonrpc":"2.0","id":%b' % id.encode() for id in ids)
        since = len(editor.frames)
        await editor.send_raw(text_prompt(7, session, "Once.") + text_prompt(7, session, "Twice."))
        await editor.wait_for(answers_to(7), since=since)
        assert code_of(editor.frames[since:], 7) == INVALID
        (tmp_path / "go").touch()
        await editor.wait_until(lambda: len(answers(editor.frames[since:])) == 2)
        assert answers(editor.frames[since:])[1].message == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"stopReason": "end_turn"},
        }
        await editor.request("session/list", id=7)
    assert len(StoredLog(tmp_path, session).of("turn/start")) == 1


async def test_requests_before_initialize_are_refused_and_the_connection_can_still_begin(tmp_path: Path) -> None:
    """Bad input: requests before initialize, and initialize with params that cannot be read, then a good one."""
    methods = ("session/new", "session/load", "session/list", "session/prompt", "session/close", "session/set_mode")
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        for method in (*methods, "authenticate"):
            params = {"cwd": str(tmp_path), "mcpServers": [], "sessionId": "x", "methodId": "environment"}
            error = (await editor.request(method, params))["error"]
            assert (method, error["code"]) == (method, INVALID)
            assert error["message"] == f"{method} came before initialize."
        await editor.send_raw(notification("session/cancel", sessionId="x"))
        assert (await editor.request("no/such"))["error"]["code"] == UNKNOWN_METHOD
        assert (await editor.request("initialize", {"protocolVersion": "one"}))["error"]["code"] == BAD_PARAMS
        assert (await editor.request("session/list"))["error"]["code"] == INVALID
        await editor.initialize()
        session = await editor.new_session(tmp_path)
        assert (await editor.prompt(session, "Hello?")).stop_reason == "end_turn"
        assert editor.stderr == ""


def _mutant(random: Random, number: int, victim: str, folder: Path) -> bytes:
    """A request with a unique id, then bytes of it changed, cut, doubled or put in at random; never a newline."""
    templates = [
        text_prompt(f"fuzz-{number}", victim, "Hello."),
        request(f"fuzz-{number}", "session/list", cwd=str(folder), cursor=None),
        request(f"fuzz-{number}", "session/new", cwd=str(folder), mcpServers=[]),
        request(f"fuzz-{number}", "session/set_mode", sessionId=victim, modeId="ask"),
        request(f"fuzz-{number}", "initialize", protocolVersion=1, clientCapabilities={"fs": {}}),
        request(f"fuzz-{number}", "session/load", sessionId=victim, cwd=str(folder), mcpServers=[]),
        notification("session/cancel", sessionId=victim),
        line({"jsonrpc": "2.0", "id": number, "result": {"outcome": {"outcome": "selected"}}}),
    ]
    data = bytearray(random.choice(templates)[:-1])
    for _ in range(random.choice((0, 1, 1, 2, 8))):
        at = random.randrange(len(data) + 1)
        noise = bytes(random.choice(b'{}[]":,\\x00 tnf0-9eE.\xff\xc3') for _ in range(random.randrange(4)))
        end = at + random.choice((0, 1, 1, 3, 40))
        data[at:end] = noise
    return bytes(data)


def _wanted(data: bytes) -> int | None:
    """How many answers a line is owed by JSON-RPC; None where it is broken, so that only its sender can know."""
    try:
        message = json.loads(data.decode(), parse_constant=lambda name: json.loads(""), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return 1
    if "method" not in message:
        return int("result" not in message and "error" not in message)
    proper = message.get("jsonrpc", "2.0") == "2.0" and isinstance(message["method"], str)
    proper &= isinstance(message.get("params"), dict | list | None)
    return int("id" in message or not proper)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


async def test_random_bytes_get_no_more_than_their_answers_and_hurt_nobody(tmp_path: Path) -> None:
    """Bad input: any byte sequence. 1,500 lines from a fixed seed, noise and damaged requests about one session."""
    random = Random(20_241)
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")], [text("Still here.")])) as editor:
        victim, other = await editor.new_session(tmp_path), await editor.new_session(tmp_path)
        assert (await editor.prompt(other, "Hello.")).stop_reason == "end_turn"
        since = len(editor.frames)
        lines = [random.randbytes(random.randrange(1, 200)).replace(b"\n", b"") for _ in range(500)]
        lines += [_mutant(random, number, victim, tmp_path).replace(b"\n", b"") for number in range(1000)]
        random.shuffle(lines)
        await editor.send_raw(b"".join(data + b"\n" for data in lines))
        await editor.request("session/list", id="last", timeout=30)
        owed = [data for data in lines if _wanted(data) == 1]
        unsure = sum(_wanted(data) is None for data in lines)
        await editor.wait_until(lambda: len(answers(editor.frames[since:])) > len(owed))
        # Not through the SDK, whose next number may be that of an error which a damaged line was answered with.
        asked = {"sessionId": other, "prompt": [{"type": "text", "text": "Still here?"}]}
        assert (await editor.request("session/prompt", asked))["result"] == {"stopReason": "end_turn"}
        await editor.request("session/close", {"sessionId": victim})
        given = Counter(json.dumps(frame.id) for frame in answers(editor.frames[since:]))
        for data in owed:
            id = mapping(json.loads(data)).get("id")
            if isinstance(id, str | int) and not isinstance(id, bool):
                assert given[json.dumps(id)] >= 1, data
        assert len(owed) < sum(given.values()) <= len(owed) + unsure + 3
        assert not [(id, number) for id, number in given.items() if id.startswith('"fuzz-') and number > 1]
        assert editor.stderr == ""
    assert StoredLog(tmp_path, other).endings == ["completed", "completed"]
