"""Without a usable model everything says what to set, and what a person then sets counts for the running agent."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError

from tests.e2e.plays import play, text
from tests.support.agent import AGENT, agent_env, start_agent
from tests.support.editor import Editor, client_capabilities
from tests.support.openai_server import Exchange, OpenAIServer, Reply
from tests.support.schema import mapping
from tests.support.terminal import END_OF_INPUT, INTERRUPT, Terminal

pytestmark = pytest.mark.anyio

AUTH, BAD_PARAMS = -32000, -32602
KEY = "sk-good-0123456789abcdef"
OLD_KEY = "sk-old-0123456789abcdef"


async def _error(editor: Editor, method: str, **params: Any) -> tuple[int, str]:
    error = mapping((await editor.request(method, params)).get("error"))
    return error.get("code", 0), error.get("message", "")


async def _new_error(editor: Editor, folder: Path) -> str:
    code, message = await _error(editor, "session/new", cwd=str(folder), mcpServers=[])
    assert code == AUTH
    return message


async def test_without_a_model_a_session_is_refused_with_what_to_set(tmp_path: Path) -> None:
    """Issue 2 item 9, editors rule 22. The connection stays good, stored threads can still be listed and read."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("One.")])) as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, "First.")
    async with start_agent(tmp_path) as editor:
        await editor.initialize()
        for _ in range(2):
            message = await _new_error(editor, tmp_path)
            for words in ("ACP_BRIDGE_MODEL", "openai/", "OPENAI_API_KEY", "OPENAI_BASE_URL", "`acp-bridge login`"):
                assert words in message
        assert len((await editor.request("session/list"))["result"]["sessions"]) == 1
        await editor.load_session(session, tmp_path)
        assert editor.text(session) == "One."
        prompt = [{"type": "text", "text": "Second."}]
        assert await _error(editor, "session/prompt", sessionId=session, prompt=prompt) == (AUTH, message)
        assert editor.stderr == ""


MISTAKES: dict[str, tuple[dict[str, str], str]] = {
    "no key": ({"ACP_BRIDGE_MODEL": "openai/gpt-5"}, "Set OPENAI_API_KEY, or OPENAI_BASE_URL"),
    "a key with a space": (
        {"ACP_BRIDGE_MODEL": "openai/gpt-5", "OPENAI_API_KEY": f"{KEY} x"},
        "OPENAI_API_KEY holds characters that no key has",
    ),
    "no URL": (
        {"ACP_BRIDGE_MODEL": "openai/gpt-5", "OPENAI_BASE_URL": "localhost:8000", "OPENAI_API_KEY": KEY},
        "OPENAI_BASE_URL must be a URL such as",
    ),
    "no provider": ({"ACP_BRIDGE_MODEL": "gpt-5"}, "environment: ACP_BRIDGE_MODEL: expected provider/model"),
    "no model": ({"ACP_BRIDGE_MODEL": "openai/"}, "environment: ACP_BRIDGE_MODEL: expected provider/model"),
    "another provider": ({"ACP_BRIDGE_MODEL": "nobody/m"}, "No adapter serves the provider 'nobody'"),
    "no screenplay": ({"ACP_BRIDGE_MODEL": "scripted/none.toml"}, "The screenplay none.toml is no file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_in_the_settings_is_told_where_an_editor_shows_it(tmp_path: Path, mistake: str) -> None:
    """Editors §6.2: an agent that does not come up just looks broken, so the mistake is told by session/new."""
    env, words = MISTAKES[mistake]
    async with start_agent(tmp_path, env=env) as editor:
        await editor.initialize()
        message = await _new_error(editor, tmp_path)
        assert words in message
        assert KEY not in message
        assert await _error(editor, "authenticate", methodId="environment") == (AUTH, message)
        assert editor.stderr == ""


async def test_a_broken_settings_file_is_named_and_counts_once_it_is_mended(tmp_path: Path) -> None:
    """Design §14: file, key and expectation; the running agent reads it again. A later mistake stops nothing."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.toml").write_text(f'modle = "x"\n[openai]\napi_key = "{KEY}"\n')
    env = {"ACP_BRIDGE_CONFIG_DIR": str(config)}
    async with start_agent(tmp_path, env=env) as editor:
        await editor.initialize()
        message = await _new_error(editor, tmp_path)
        assert message.startswith(f"{config}/config.toml: ")
        assert "modle" in message
        assert KEY not in message
        (config / "config.toml").write_text(f'model = "scripted/{play(tmp_path, [text("One.")], [text("Two.")])}"\n')
        session = await editor.new_session(tmp_path)
        assert (await editor.prompt(session, "First.")).stop_reason == "end_turn"
        (config / "config.toml").write_text("half a li")
        assert (await editor.prompt(session, "Second.")).stop_reason == "end_turn"
        assert editor.text(session) == "One.Two."


OFFERS: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing said": ({}, False),
    "no terminal": ({"auth": {"terminal": False}}, False),
    "a terminal for commands only": ({"terminal": True}, False),
    "auth.terminal": ({"auth": {"terminal": True}}, True),
    "terminal-auth": ({"_meta": {"terminal-auth": True}}, True),
    "terminal-auth is off": ({"_meta": {"terminal-auth": False}}, False),
}


async def test_an_agent_method_is_always_offered_and_a_terminal_method_only_to_whom_has_one(tmp_path: Path) -> None:
    """Editors §7: the registry wants one agent method; its client says `_meta.terminal-auth`, Zed says both."""
    async with start_agent(tmp_path) as editor:
        for offer, (capabilities, terminal) in OFFERS.items():
            params = {"protocolVersion": 1, "clientCapabilities": capabilities}
            methods = (await editor.request("initialize", params))["result"]["authMethods"]
            kinds = [method.get("type", "agent") for method in methods]
            assert (offer, kinds) == (offer, ["agent", "terminal"][: 1 + terminal])
            assert all(method["id"] and method["name"] for method in methods)
            assert [method["args"] for method in methods[1:]] == [["login"]] * terminal


async def test_authenticate_answers_at_once_and_again_and_again(tmp_path: Path) -> None:
    """Editors rule 30: any advertised id, before and after a session, in the middle of a turn; also the terminal id."""
    steps = play(tmp_path, [text("One ", {"wait_for_file": "go"}, "two.")])
    async with start_agent(tmp_path, screenplay=steps, capabilities=client_capabilities(auth_terminal=True)) as editor:
        offered = (await editor.initialize()).auth_methods or []
        ids = [method.id for method in offered] * 2
        assert ids == ["environment", "login"] * 2
        for id in ids:
            assert (await editor.request("authenticate", {"methodId": id}))["result"] == {}
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Count.")
        await editor.wait_until(lambda: editor.text(session) == "One ")
        for id in ids:
            assert (await editor.request("authenticate", {"methodId": id}))["result"] == {}
        assert (await _error(editor, "authenticate", methodId="other"))[0] == BAD_PARAMS
        (tmp_path / "go").touch()
        assert (await turn.result()).stop_reason == "end_turn"


def _login_env(tmp_path: Path) -> dict[str, str]:
    return agent_env(tmp_path, ACP_BRIDGE_CONFIG_DIR=str(tmp_path / "config" / "acp"))


async def _login(tmp_path: Path, *answers: str, args: tuple[str, ...] = ("login",)) -> tuple[int, str]:
    """Answer the three questions as far as there are answers; exit status and screen."""
    async with Terminal.open([*AGENT, *args], env=_login_env(tmp_path), cwd=tmp_path) as terminal:
        for question, answer in zip(("Base URL", "Model name", "API key"), answers, strict=False):
            await terminal.expect(question)
            terminal.type(answer)
        return await terminal.status(), terminal.shown


def _by_key(request: Exchange) -> Reply:
    good = request.headers["authorization"] == f"Bearer {KEY}"
    return Reply.text("Here I am.") if good else Reply.status(401, "bad key")


async def test_a_login_in_a_terminal_is_stored_for_this_user_alone_and_the_running_agent_takes_it(
    tmp_path: Path,
) -> None:
    """Issue 2 item 9: the terminal method, in a real terminal, while an agent runs that had no model so far."""
    config = tmp_path / "config" / "acp"
    with OpenAIServer([], fallback=_by_key) as server:
        async with start_agent(tmp_path, env=_login_env(tmp_path)) as editor:
            await editor.initialize()
            await _new_error(editor, tmp_path)
            before = os.umask(0)
            try:
                status, shown = await _login(tmp_path, f"{server.base_url}\n", "test-model\n", f"{KEY}\n")
            finally:
                os.umask(before)
            assert status == 0, shown
            assert KEY not in shown
            assert str(config / "credentials.toml") in shown
            assert [path.name for path in config.iterdir()] == ["credentials.toml"]
            assert stat.S_IMODE((config / "credentials.toml").stat().st_mode) == 0o600
            assert stat.S_IMODE(config.stat().st_mode) == 0o700
            assert (await editor.request("authenticate", {"methodId": "login"}))["result"] == {}
            session = await editor.new_session(tmp_path)
            assert (await editor.prompt(session, "Hello?")).stop_reason == "end_turn"
            assert editor.text(session) == "Here I am."
            assert editor.stderr == ""
        assert server.chats[0].body["model"] == "test-model"


async def test_a_refused_key_is_replaced_by_a_login_without_a_restart(tmp_path: Path) -> None:
    """Editors §6.7, §6.8: -32000 for a prompt, a login, authenticate, and the same prompt again."""
    with OpenAIServer([], fallback=_by_key) as server:
        assert (await _login(tmp_path, f"{server.base_url}\n", "test-model\n", f"{OLD_KEY}\n"))[0] == 0
        async with start_agent(tmp_path, env=_login_env(tmp_path)) as editor:
            session = await editor.new_session(tmp_path)
            with pytest.raises(RequestError, match="refused the API key") as refused:
                await editor.prompt(session, "Hello?")
            assert refused.value.code == AUTH
            assert (await _login(tmp_path, f"{server.base_url}\n", "test-model\n", f"{KEY}\n"))[0] == 0
            assert (await editor.request("authenticate", {"methodId": "environment"}))["result"] == {}
            assert (await editor.prompt(session, "Hello?")).stop_reason == "end_turn"
            assert editor.text(session) == "Here I am."


NOT_ENOUGH = {
    "no model": ("\n", "\n", f"{KEY}\n"),
    "no key for OpenAI": ("\n", "gpt-5\n", "\n"),
    "end of input": ("http://x/v1\n", END_OF_INPUT),
    "interrupted": ("http://x/v1\n", "m\n", INTERRUPT),
}


@pytest.mark.parametrize("case", NOT_ENOUGH)
async def test_a_login_that_is_not_enough_or_given_up_stores_nothing(tmp_path: Path, case: str) -> None:
    """It says so, ends with 1, and leaves what was stored before alone."""
    stored = tmp_path / "config" / "acp" / "credentials.toml"
    stored.parent.mkdir(parents=True)
    stored.write_text("not even TOML, which must not stand in the way")
    status, shown = await _login(tmp_path, *NOT_ENOUGH[case])
    assert (status, "Nothing was stored." in shown) == (1, True), shown
    assert "Traceback" not in shown
    assert os.listdir(stored.parent) == [stored.name]
    assert stored.read_text().startswith("not even TOML")


async def test_a_login_after_the_usual_arguments_and_with_odd_answers_is_stored_as_given(tmp_path: Path) -> None:
    """Editors §7: `acp-bridge <default args> login`. Quotes and backslashes survive, spaces around are dropped."""
    answers = ("  http://localhost:8000/v1  \n", 'a "quoted" \\model\n', "\n")
    status, shown = await _login(tmp_path, *answers, args=("--verbose", "login"))
    assert status == 0, shown
    stored = tomllib.loads((tmp_path / "config" / "acp" / "credentials.toml").read_text())
    assert stored == {"model": 'openai/a "quoted" \\model', "openai": {"base_url": "http://localhost:8000/v1"}}
