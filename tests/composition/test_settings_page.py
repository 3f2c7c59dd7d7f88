"""docs/settings.md: what it shows is a config.toml that is followed, and nothing that can be set is missing."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from acp_bridge_composition import order
from acp_bridge_composition.choices import chosen, durable
from acp_bridge_composition.settings import OpenaiSettings, load_settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def example() -> str:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block)


def test_the_example_is_followed_and_shows_the_defaults(tmp_path: Path) -> None:
    environ = {"ACP_BRIDGE_CONFIG_DIR": str(tmp_path), "ACP_BRIDGE_STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "config.toml").write_text(example())
    shown = load_settings(environ)
    (tmp_path / "config.toml").unlink()
    default = load_settings(environ)
    for name in ("max_steps", "max_parallel_tools", "deadlines"):
        assert getattr(shown, name) == getattr(default, name)
    plain = {plugin.name: plugin.settings for plugin in (*chosen(default), *durable(default))}
    for plugin in (*chosen(shown), *durable(shown)):
        if plugin.name != "tools_shell":  # its list of variables is empty by default
            assert plugin.settings == plain[plugin.name]


def test_every_setting_of_ours_is_shown() -> None:
    keys = set(re.findall(r"(\w+) =", example()))
    for entry in (*order.PLUGINS, *order.DURABLE_ORDER):
        assert {field.name for field in msgspec.structs.fields(entry.settings)} <= keys
    assert {field.name for field in msgspec.structs.fields(OpenaiSettings)} <= keys
