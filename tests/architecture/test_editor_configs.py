"""Every file in editor_configs/ parses and names a command, arguments and settings that exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "editor_configs"
SETTINGS = {"ACP_BRIDGE_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ACP_BRIDGE_STATE_DIR", "ACP_BRIDGE_CONFIG_DIR"}


def commands() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])


def test_every_file_is_covered_by_a_test_here() -> None:
    files = {path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*") if path.is_file()}
    assert files == {"README.md", "zed/settings.json", "neovim/codecompanion.lua"}


def test_the_zed_settings_start_an_installed_command_with_known_settings() -> None:
    server = json.loads((CONFIGS / "zed/settings.json").read_text())["agent_servers"]["acp-bridge"]
    assert server["type"] == "custom"
    assert server["command"] in commands()
    assert server["args"] == []
    assert set(server["env"]) <= SETTINGS
    from acp_bridge.approval.modes import MODES

    assert server["default_mode"] in MODES


def test_the_codecompanion_setup_starts_an_installed_command_with_known_settings() -> None:
    text = (CONFIGS / "neovim/codecompanion.lua").read_text()
    command = re.search(r'commands = \{ default = \{ "([^"]+)" \} \}', text)
    assert command
    assert command[1] in commands()
    environment = re.search(r"env = \{(.*?)\}", text, re.DOTALL)
    assert environment
    assert set(re.findall(r"(\w+) =", environment[1])) <= SETTINGS
    assert lua_brackets_balance(text)


def lua_brackets_balance(text: str) -> bool:
    """Enough of Lua for a table of literals: without strings and comments, brackets and `function` have their ends."""
    code = re.sub(r"--.*", "", re.sub(r'"(?:[^"\\]|\\.)*"', '""', text))
    opened = [code.count(bracket) for bracket in "({["]
    closed = [code.count(bracket) for bracket in ")}]"]
    return opened == closed and len(re.findall(r"\bfunction\b", code)) == len(re.findall(r"\bend\b", code))
