"""Arguments, the plan, and what a person sees of it (field case A5, contracts §8.5). Nothing runs here."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge import hookspecs
from acp_bridge.errors import ToolFailed
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.session.events import Presentation
from acp_bridge.tools.registry import TOOLS, Tools
from acp_bridge.tools.schema import violations
from acp_bridge.tools.tool import Access
from acp_bridge_plugins.tools_shell.command import PARAMETERS, Plan
from acp_bridge_plugins.tools_shell.environment import Account, environment
from acp_bridge_plugins.tools_shell.plugin import ToolsShell
from acp_bridge_plugins.tools_shell.present import announced
from tests.sandbox.calls import Shell, execution

pytestmark = pytest.mark.anyio

WIDER = {"sandbox_permissions": "danger-full-access", "justification": "needs the network"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"command": " \n"}, "blank"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "\ud800"}, "surrogate"),
        ({"command": "x" * 131_072}, "131072 bytes"),
        ({"command": "true", "timeout_s": 600.1}, "at most 600"),
        ({"command": "true", "timeout_s": float("nan")}, "at most 600"),
        ({"command": "true", "cwd": "missing"}, "no directory"),
        ({"command": "true", "cwd": "a\0b"}, "no path has"),
        ({"command": "true", "sandbox_permissions": "danger-full-access"}, "together or not at all"),
        ({"command": "true", "justification": "because"}, "together or not at all"),
        ({"command": "true", **WIDER, "justification": " "}, "justification is blank"),
        ({"command": "true", **WIDER, "sandbox_permissions": "workspace-write"}, "not wider"),
    ],
)
async def test_what_cannot_run_as_given_is_refused_before_anybody_is_asked(
    root: Path, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ToolFailed, match=complaint) as failure:
        await Shell(root).tool.prepare(execution(root, arguments))
    assert failure.value.code == "INVALID_ARGS"


@pytest.mark.parametrize("mode", ["workspace-write", "danger-full-access"])
async def test_nothing_is_wider_than_what_the_session_has(root: Path, mode: SandboxMode) -> None:
    with pytest.raises(ToolFailed, match="not wider"):
        await Shell(root, mode).prepare("true", **{**WIDER, "sandbox_permissions": mode})


async def test_the_plan_is_the_commands_own_bytes_in_a_canonical_directory(root: Path, tmp_path: Path) -> None:
    (root / "deep").mkdir()
    (tmp_path / "link").symlink_to(root / "deep")
    command = "  echo 'é $x'\n# \u202e `\n"
    prepared = await Shell(root).prepare(command, cwd="../link", timeout_s=1.5)
    plan = prepared.plan
    assert isinstance(plan, Plan)
    assert plan.argv[1:] == ("-c", command)
    assert plan.argv[0] in {"/bin/bash", "/usr/bin/bash", "/bin/sh"} or plan.argv[0].endswith("/bash")
    assert plan.cwd == str(root / "deep")
    assert plan.asked.timeout_seconds == 1.5
    assert prepared.access == Access("execute", (str(root / "deep"),))


async def test_a_wider_sandbox_is_part_of_the_access_and_of_what_is_shown(root: Path) -> None:
    prepared = await Shell(root).prepare("make install", **WIDER)
    assert prepared.access == Access(
        "execute", (str(root),), sandbox="danger-full-access", justification="needs the network"
    )
    assert prepared.presentation.text is not None
    assert "**no sandbox**" in prepared.presentation.text
    assert "because: `needs the network`" in prepared.presentation.text


async def test_the_whole_command_is_shown_with_directory_limits_and_time(root: Path) -> None:
    """Field case A5: 5 KB with control and bidi characters."""
    command = "echo start\n" + "echo padding\n" * 400 + "echo \u202eevil\x1b[8m\x07; rm -rf x"
    shown = (await Shell(root).prepare(command)).presentation
    assert shown.kind == "execute"
    assert shown.title == "`echo start …`"
    assert shown.text == (
        "```sh\necho start\n" + "echo padding\n" * 400 + "echo \\u202eevil\\x1b[8m\\x07; rm -rf x\n```\n\n"
        f"In `{root}`, for at most 120 s.\n\n"
        "Sandbox workspace-write: it can change files in the session's folders and a temporary directory only, "
        "and it has no network."
    )


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("ls -la", "`ls -la`"),
        ("\n\n  ls\n", "`ls`"),
        ("a\nb", "`a …`"),
        ("echo `date`", "`` echo `date` ``"),
        ("x" * 200, f"`{'x' * 119}…`"),
        ("a\u200bb\tc", "`a\\u200bb\\tc`"),
    ],
)
def test_the_title_is_the_first_line_shortened_and_visible(command: str, title: str) -> None:
    assert announced({"command": command}, "/w").title == title


@given(st.text(alphabet="`~ab\n \u202e"))
def test_a_command_cannot_end_its_own_code_block(command: str) -> None:
    """CommonMark: a closing fence has at least as many backticks as the opening one."""
    shown = announced({"command": "x" + command}, "/w").text
    assert shown is not None
    fence = re.match("`+", shown)
    assert fence is not None
    inside = shown.removeprefix(f"{fence.group()}sh\n").rpartition(f"\n{fence.group()}\n\nIn ")[0]
    assert fence.group() not in inside


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*PARAMETERS["properties"], "other"]), inner),
)


@given(ANYTHING)
def test_present_takes_anything_and_answers_what_can_be_logged(arguments: Any) -> None:
    shown = Shell(Path("/w")).tool.present(arguments, "/w")
    assert isinstance(shown, Presentation)
    assert "\n" not in shown.title
    msgspec.json.encode(shown)


@given(ANYTHING)
async def test_valid_arguments_prepare_or_are_refused_as_invalid(arguments: Any) -> None:
    if violations(PARAMETERS, arguments):
        return
    try:
        prepared = await Shell(Path("/")).tool.prepare(execution(Path("/"), arguments))
    except ToolFailed as failure:
        codes = [failure.code]
    else:
        codes = ["INVALID_ARGS"]
        msgspec.json.encode(prepared.presentation)
    assert codes == ["INVALID_ARGS"]


def test_commands_never_overlap() -> None:
    assert Shell(Path("/w")).tool.concurrency_safe({"command": "true"}) is False


def test_the_environment_is_built_from_nothing() -> None:
    parent = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "USER": "u",
        "LC_CTYPE": "de_DE.UTF-8",
        "LC_MESSAGES": "de_DE.UTF-8",
        "OPENAI_API_KEY": "sk",
        "AWS_SECRET_ACCESS_KEY": "x",
        "LD_PRELOAD": "x",
        "BASH_ENV": "x",
        "PYTHONPATH": "x",
    }
    assert environment(parent, Account("n", "/n"), "/bin/sh") == {
        "PATH": "/bin",
        "HOME": "/home/u",
        "USER": "u",
        "SHELL": "/bin/sh",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "LC_CTYPE": "de_DE.UTF-8",
        "LC_MESSAGES": "C",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
    }


def test_an_agent_that_was_started_with_nothing_still_gives_a_working_environment() -> None:
    """Some editors pass on only PATH and what the user configured."""
    made = environment({"LC_ALL": "fr_FR.UTF-8"}, Account("n", "/home/n"), "/bin/sh")
    assert (made["HOME"], made["USER"], made["LANG"]) == ("/home/n", "n", "fr_FR.UTF-8")
    assert "/usr/bin" in made["PATH"]
    assert "LC_ALL" not in made


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "anthropic_api_key", "ACP_BRIDGE_MODEL"])
def test_keys_of_model_providers_are_withheld_even_when_they_are_named(name: str) -> None:
    assert name not in environment({name: "sk"}, Account("n", "/n"), "/bin/sh", (name,))
    assert environment({"GOPATH": "/go"}, Account("n", "/n"), "/bin/sh", ("GOPATH",))["GOPATH"] == "/go"


async def test_the_plugin_offers_the_tool_and_takes_it_back() -> None:
    kernel, tools = Kernel(hookspecs, Silent()), Tools()
    async with kernel.providing(TOOLS, tools, "test"):
        async with kernel.mounted(ToolsShell()):
            assert tools.get("run_command") is not None
        assert tools.get("run_command") is None
