"""Settings: where each comes from, what outranks what, and errors that name file, key and expectation (design §14)."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import msgspec
import pytest

from acp_bridge.errors import SettingsError
from acp_bridge_composition.settings import (
    ModelRoute,
    OpenaiSettings,
    Settings,
    bare_settings,
    load_settings,
    settings_stamp,
)

KEY = "sk-secret-0123456789"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Directories below the test's own folder, nothing else."""
    (tmp_path / "config").mkdir()
    return {"ACP_BRIDGE_CONFIG_DIR": str(tmp_path / "config"), "ACP_BRIDGE_STATE_DIR": str(tmp_path / "state")}


def write(environ: dict[str, str], name: str, text: str) -> Path:
    path = Path(environ["ACP_BRIDGE_CONFIG_DIR"]) / name
    path.write_text(text)
    return path


def refused(environ: dict[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as error:
        load_settings(environ)
    assert KEY not in str(error.value)
    assert str(error.value).endswith(".")
    return error.value


def test_without_anything_there_is_no_model_and_every_default(environ: dict[str, str], tmp_path: Path) -> None:
    settings = load_settings(environ)
    assert settings == Settings(tmp_path / "state", tmp_path / "config", None, OpenaiSettings(), 200, 10)
    assert settings == bare_settings(environ)
    assert settings.sessions_dir == tmp_path / "state" / "sessions"
    assert settings.private_dirs == (str(tmp_path / "state"), str(tmp_path / "config"))
    assert not (tmp_path / "state").exists()


def test_the_deadlines_of_the_end_are_nested_whatever_is_set(environ: dict[str, str]) -> None:
    for seconds in (1.0, 1.8, 60.0):
        write(environ, "config.toml", f"undo_seconds = {seconds}\n")
        ends = load_settings(environ).deadlines
        assert 0 < ends.rest < ends.effect < ends.part == seconds
        assert ends.exit > 5 * ends.part


@pytest.mark.parametrize("seconds", ["0.5", "61", "nan"])
def test_a_deadline_that_would_cut_off_everything_or_nothing_is_refused(environ: dict[str, str], seconds: str) -> None:
    write(environ, "config.toml", f"undo_seconds = {seconds}\n")
    assert "undo_seconds" in str(refused(environ))


SOURCES = ("environment", "config", "login")


@pytest.mark.parametrize("present", [set for set in product((True, False), repeat=3) if any(set)])
def test_environment_outranks_config_and_config_outranks_login(
    environ: dict[str, str], present: tuple[bool, bool, bool]
) -> None:
    """For each setting by itself, whatever else the other sources hold."""
    first = SOURCES[present.index(True)]
    for source, there in zip(SOURCES, present, strict=True):
        values = {"model": f"openai/{source}", "api_key": f"key-{source}", "base_url": f"http://{source}/v1"}
        if there and source == "environment":
            environ |= {
                "ACP_BRIDGE_MODEL": values["model"],
                "OPENAI_API_KEY": values["api_key"],
                "OPENAI_BASE_URL": values["base_url"],
            }
        elif there:
            name = "config.toml" if source == "config" else "credentials.toml"
            text = 'model = "{model}"\n[openai]\napi_key = "{api_key}"\nbase_url = "{base_url}"\n'
            write(environ, name, text.format(**values))
    settings = load_settings(environ)
    assert settings.route == ModelRoute("openai", first)
    assert settings.openai == OpenaiSettings(f"key-{first}", f"http://{first}/v1")


def test_sources_mix_and_an_empty_variable_counts_as_none(environ: dict[str, str]) -> None:
    """Editors write variables with empty values for fields that were left blank."""
    write(environ, "credentials.toml", f'model = "openai/m"\n[openai]\napi_key = "{KEY}"\n')
    write(environ, "config.toml", "max_steps = 7\nmax_parallel_tools = 1\n")
    environ |= {"OPENAI_API_KEY": "", "ACP_BRIDGE_MODEL": "", "OPENAI_BASE_URL": "http://localhost:1/v1"}
    settings = load_settings(environ)
    assert (settings.route, settings.max_steps, settings.max_parallel_tools) == (ModelRoute("openai", "m"), 7, 1)
    assert settings.openai == OpenaiSettings(KEY, "http://localhost:1/v1")


@pytest.mark.parametrize("value", ["openai/gpt-5", "scripted//abs/olute/play.toml", "openai/org/model:free", "x/y"])
def test_a_route_is_a_provider_and_everything_behind_the_first_slash(environ: dict[str, str], value: str) -> None:
    provider, _, model = value.partition("/")
    assert load_settings(environ | {"ACP_BRIDGE_MODEL": value}).route == ModelRoute(provider, model)


@pytest.mark.parametrize("value", ["gpt-5", "openai/", "/gpt-5", "/", " "])
def test_a_route_without_provider_or_model_is_refused_where_it_stands(environ: dict[str, str], value: str) -> None:
    error = refused(environ | {"ACP_BRIDGE_MODEL": value})
    assert (error.where, error.key) == ("environment", "ACP_BRIDGE_MODEL")
    assert "provider/model" in error.expected
    for name in ("config.toml", "credentials.toml"):
        path = write(environ, name, f'model = "{value}"\n')
        error = refused(environ)
        assert (error.where, error.key) == (str(path), "model")
        path.unlink()


BROKEN = {
    "model = 7\n": ("model", "got `int`"),
    "max_steps = 0\n": ("max_steps", "at least 1"),
    "max_steps = -3\n": ("max_steps", "at least 1"),
    "max_steps = 1.5\n": ("max_steps", "got `float`"),
    'max_parallel_tools = "2"\n': ("max_parallel_tools", "got `str`"),
    "max_parallel_tools = 0\n": ("max_parallel_tools", "at least 1"),
    f'modle = "{KEY}"\n': ("(top level)", "unknown field `modle`"),
    'openai = "x"\n': ("openai", "got `str`"),
    "[openai]\napi_key = 7\n": ("openai.api_key", "got `int`"),
    f'[openai]\napi_key = "{KEY}\n': ("(file)", "is not TOML"),
    f"[openai]\napi_key = {KEY}\n": ("(file)", "is not TOML"),
    f'api_key = "{KEY}"\n': ("(top level)", "unknown field `api_key`"),
}


# A login stores no limits, so nobody looks at them there.
FILES = [(name, text) for name in ("config.toml", "credentials.toml") for text in BROKEN]


@pytest.mark.parametrize(("name", "text"), [case for case in FILES if "max_" not in case[1] or "config" in case[0]])
def test_an_error_names_file_key_and_expectation_and_never_a_key(environ: dict[str, str], name: str, text: str) -> None:
    path = write(environ, name, text)
    error = refused(environ)
    key, expected = BROKEN[text]
    assert (error.where, error.key) == (str(path), key)
    assert expected in error.expected


def test_files_that_cannot_be_read_are_named(environ: dict[str, str]) -> None:
    """Not UTF-8, a directory in the file's place; a missing directory is no error."""
    path = write(environ, "config.toml", "")
    path.write_bytes(b'model = "\xff"\n')
    assert refused(environ).key == "(file)"
    path.unlink()
    path.mkdir()
    assert "cannot be read" in refused(environ).expected
    environ["ACP_BRIDGE_CONFIG_DIR"] += "/config.toml/not/there"
    assert load_settings(environ).route is None


@pytest.mark.parametrize("name", ["ACP_BRIDGE_STATE_DIR", "ACP_BRIDGE_CONFIG_DIR"])
def test_a_directory_must_be_absolute(environ: dict[str, str], name: str) -> None:
    """Relative to what would depend on the project that an editor happens to start the agent in."""
    for value in (".", "state", "~/state"):
        error = refused(environ | {name: value})
        assert (error.where, error.key) == ("environment", name)


def test_a_broken_file_leaves_directories_and_defaults(environ: dict[str, str]) -> None:
    before = bare_settings(environ)
    write(environ, "config.toml", "broken")
    write(environ, "credentials.toml", "broken")
    assert bare_settings(environ) == before


def test_no_repr_holds_a_key(environ: dict[str, str]) -> None:
    settings = load_settings(environ | {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://x/v1"})
    assert settings.openai.api_key == KEY
    for shown in (repr(settings), str(settings), f"{settings.openai}", repr([settings.openai])):
        assert KEY not in shown
        assert "api_key=set" in shown
    assert "api_key=None" in repr(OpenaiSettings())


def test_the_files_of_the_working_directory_are_never_read(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design §14: a repository's own files change nothing."""
    project = tmp_path / "project"
    for folder in (project, project / ".acp-bridge", project / ".config" / "acp-bridge"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.toml", "credentials.toml", "acp-bridge.toml", ".env"):
            (folder / name).write_text('model = "openai/evil"\n')
    monkeypatch.chdir(project)
    assert load_settings(environ) == bare_settings(environ)


def test_the_stamp_changes_with_every_change_of_a_file(environ: dict[str, str]) -> None:
    """Written, written again with the same size, replaced, removed; and not by itself."""
    config_dir = Path(environ["ACP_BRIDGE_CONFIG_DIR"])
    seen = [settings_stamp(config_dir)]

    def changed() -> None:
        assert settings_stamp(config_dir) == settings_stamp(config_dir)
        assert settings_stamp(config_dir) not in seen
        seen.append(settings_stamp(config_dir))

    path = write(environ, "config.toml", "a = 1\n")
    changed()
    path.write_text("a = 2\n")
    os.utime(path, ns=(1, 1))  # a coarse clock may give both writes one time
    changed()
    other = write(environ, "other.toml", "a = 3\n")
    os.utime(other, ns=(1, 1))
    other.replace(path)
    changed()
    write(environ, "credentials.toml", "")
    changed()
    path.unlink()
    changed()
    assert settings_stamp(config_dir / "not" / "there") == (None, None)


def test_settings_are_plain_values() -> None:
    """Frozen: whoever holds them can rely on them."""
    settings = Settings(Path("/s"), Path("/c"))
    with pytest.raises(AttributeError):
        settings.max_steps = 7  # type: ignore[misc]  # that is the point
    assert msgspec.structs.replace(settings, max_steps=7).max_steps == 7


A, B = "http://a/v1", "http://b/v1"


@pytest.mark.parametrize(
    ("environment", "config", "login", "wanted"),
    [
        (("", ""), ("", ""), ("ka", A), ("ka", A)),
        (("ke", ""), ("", ""), ("ka", A), ("ka", A)),
        (("", B), ("", ""), ("ka", A), (None, B)),
        (("ke", B), ("kc", A), ("", ""), ("ke", B)),
        (("ke", ""), ("", A), ("", ""), ("ke", A)),
        (("", ""), ("kc", ""), ("ka", A), ("ka", A)),
        (("ke", ""), ("kc", ""), ("", ""), ("ke", None)),
        (("", ""), ("", B), ("ka", A), (None, B)),
        (("", B), ("", ""), ("ka", ""), ("ka", B)),
    ],
)
def test_a_key_goes_to_no_endpoint_that_it_was_not_given_for(
    environ: dict[str, str],
    environment: tuple[str, str],
    config: tuple[str, str],
    login: tuple[str, str],
    wanted: tuple[str | None, str | None],
) -> None:
    """An endpoint keeps the key that was stored with it, and that key goes nowhere else."""
    for name, (key, url) in (("config.toml", config), ("credentials.toml", login)):
        lines = [f'{setting} = "{value}"' for setting, value in (("api_key", key), ("base_url", url)) if value]
        write(environ, name, "\n".join(["[openai]", *lines]))
    settings = load_settings({**environ, "OPENAI_API_KEY": environment[0], "OPENAI_BASE_URL": environment[1]})
    assert (settings.openai.api_key, settings.openai.base_url) == wanted
