"""`[plugins.NAME]` in config.toml over the default table: what comes out, and what is refused (design §4, §14)."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from acp_bridge.errors import SettingsError
from acp_bridge.lifecycle.kernel import Context
from acp_bridge_composition.choices import GROUP, Chosen, chosen, durable
from acp_bridge_composition.order import DURABLE_ORDER, PLUGINS
from acp_bridge_composition.settings import Settings, load_settings


class Foreign:
    """Somebody else's plugin, as an entry point finds it."""

    class Settings(Struct, forbid_unknown_fields=True):
        words: int = 3

    name = "foreign"
    needs = ()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def mount(self, context: Context) -> None: ...


@pytest.fixture
def settings_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Settings from the text of a config.toml; the entry points `foreign` and `broken` are installed."""
    here = __name__
    installed = EntryPoints([
        EntryPoint("foreign", f"{here}:Foreign", GROUP), EntryPoint("broken", "no_such_module:Plugin", GROUP),
    ])  # fmt: skip
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **wanted: installed.select(**wanted))

    def load(text: str) -> Settings:
        (tmp_path / "config.toml").write_text(text)
        return load_settings({"ACP_BRIDGE_CONFIG_DIR": str(tmp_path), "ACP_BRIDGE_STATE_DIR": str(tmp_path / "state")})

    return load


def names(found: tuple[Chosen, ...]) -> list[str]:
    return [plugin.name for plugin in found]


DEFAULT = [entry.name for entry in PLUGINS]


def test_without_a_word_it_is_the_default_table_in_its_order(settings_of: Any) -> None:
    found = (*chosen(settings_of("")), *durable(settings_of("")))
    assert names(found) == [*DEFAULT, *(entry.name for entry in DURABLE_ORDER)]
    assert [plugin.place for plugin in found] == sorted({plugin.place for plugin in found})


def test_every_line_of_the_table_has_a_reason_and_a_name_of_its_plugin(settings_of: Any) -> None:
    for entry in (*PLUGINS, *DURABLE_ORDER):
        assert len(entry.why.split()) >= 4 and entry.why.endswith(".")
    assert len({entry.name for entry in (*PLUGINS, *DURABLE_ORDER)}) == len(PLUGINS) + len(DURABLE_ORDER)


def test_a_plugin_can_be_turned_off_and_nothing_else_moves(settings_of: Any) -> None:
    before, after = chosen(settings_of("")), chosen(settings_of("[plugins.tools_search]\nenabled = false"))
    assert after == tuple(plugin for plugin in before if plugin.name != "tools_search")


def test_a_setting_changes_that_plugin_only(settings_of: Any) -> None:
    before = chosen(settings_of(""))
    after = chosen(settings_of("[plugins.tools_shell.settings]\nnetwork = true\ndefault_timeout_seconds = 5"))
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert names(tuple(changed)) == ["tools_shell"]
    assert getattr(changed[0].settings, "network") is True  # noqa: B009  # a Struct by its base


def test_a_foreign_plugin_comes_only_when_named_and_stands_where_it_is_told(settings_of: Any) -> None:
    assert "foreign" not in names(chosen(settings_of("")))
    last = chosen(settings_of("[plugins.foreign]"))
    assert names(last) == [*DEFAULT, "foreign"]
    second = chosen(
        settings_of('[plugins.mine]\nuse = "foreign"\nafter = "permission_modes"\nsettings = { words = 5 }')
    )
    assert names(second) == [DEFAULT[0], "mine", *DEFAULT[1:]]
    assert getattr(second[1].settings, "words") == 5  # noqa: B009
    assert second == chosen(
        settings_of('[plugins.mine]\nuse = "foreign"\nafter = "permission_modes"\nsettings.words = 5')
    )


def test_a_foreign_plugin_can_take_the_place_of_ours(settings_of: Any) -> None:
    found = chosen(settings_of('[plugins.tools_search]\nuse = "foreign"'))
    assert names(found) == DEFAULT
    plugin: object = found[DEFAULT.index("tools_search")].make(None)  # type: ignore[arg-type]  # foreign: no workshop
    assert isinstance(plugin, Foreign)


REFUSED = {
    "permission_modes off": ("[plugins.permission_modes]\nenabled = false", "permission_modes.enabled", "would ask"),
    "persistence off": ("[plugins.persistence_jsonl]\nenabled = false", "persistence_jsonl.enabled", "no session"),
    "bridge replaced": ('[plugins.acp_bridge]\nuse = "foreign"', "acp_bridge.use", "cannot be set"),
    "unknown": ("[plugins.nobody]", "nobody", "installed are broken, foreign"),
    "unknown place": ('[plugins.foreign]\nafter = "nobody"', "foreign.after", "expected one of permission_modes"),
    "place of a replacement": ('[plugins.tools_plan]\nuse = "foreign"\nafter = "tools_files"', "tools_plan.after", ""),
    "cannot be imported": ("[plugins.broken]", "broken", "no_such_module"),
    "unknown setting": ("[plugins.tools_shell.settings]\nnetwrok = true", "tools_shell.settings", "netwrok"),
    "wrong type": ('[plugins.tools_shell.settings]\nnetwork = "yes"', "tools_shell.settings.network", "bool"),
    "out of range": ("[plugins.sandbox_local.settings]\nprobe_timeout_seconds = 0", "probe_timeout_seconds", "> 0"),
    "nothing to set": ("[plugins.tools_plan.settings]\nx = 1", "tools_plan.settings", "x"),
    "foreign setting": ('[plugins.foreign.settings]\nwords = "a"', "foreign.settings.words", "int"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_with_file_key_and_what_was_expected(settings_of: Any, case: str) -> None:
    text, key, expected = REFUSED[case]
    settings = settings_of(text)
    with pytest.raises(SettingsError) as refused:
        (*chosen(settings), *durable(settings))
    assert refused.value.where.endswith("config.toml")
    assert key in refused.value.key
    assert expected in refused.value.expected


def test_an_unknown_key_of_a_plugin_is_a_mistake_in_the_file(settings_of: Any) -> None:
    with pytest.raises(SettingsError, match="enbled"):
        settings_of("[plugins.tools_shell]\nenbled = false")
