"""Settings: environment over config.toml over `acp-bridge login` over defaults (design §14).

Owns: names, types, defaults and where each value comes from. Must not know: who uses a setting.
Invariant: every error names file, key and what was expected; a repository's own files are never read here;
no error and no repr holds a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from acp_bridge.errors import SettingsError
from acp_bridge_composition.deadlines import LEAST_SECONDS, MOST_SECONDS, Deadlines

__all__ = [
    "CONFIG",
    "ModelRoute",
    "OpenaiSettings",
    "PluginChoice",
    "Settings",
    "bare_settings",
    "load_settings",
    "settings_stamp",
]

CONFIG = "config.toml"
CREDENTIALS = "credentials.toml"


class ModelRoute(msgspec.Struct, frozen=True):
    """`provider/model`; the model may hold slashes (a screenplay's path)."""

    provider: str
    model: str


class OpenaiSettings(msgspec.Struct, frozen=True):
    api_key: str | None = None
    base_url: str | None = None

    def __repr__(self) -> str:
        return f"OpenaiSettings(api_key={'set' if self.api_key else None}, base_url={self.base_url!r})"


class PluginChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.NAME]`: turn a plugin off, set it, put another (`use`, an entry point) in its place, or add one
    `after` one of ours."""

    enabled: bool = True
    use: str | None = None
    after: str | None = None
    settings: dict[str, Any] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shape of config.toml and of credentials.toml."""

    model: str | None = None
    models: tuple[str, ...] = ()
    max_steps: int | None = None
    max_parallel_tools: int | None = None
    undo_seconds: float | None = None
    openai: OpenaiSettings = OpenaiSettings()
    plugins: dict[str, PluginChoice] = {}


class Settings(msgspec.Struct, frozen=True):
    """`max_steps` counts model requests per turn; `max_parallel_tools` overlapping calls of one step."""

    state_dir: Path
    config_dir: Path
    route: ModelRoute | None = None
    openai: OpenaiSettings = OpenaiSettings()
    max_steps: int = 200
    max_parallel_tools: int = 10
    deadlines: Deadlines = Deadlines()
    plugins: dict[str, PluginChoice] = {}
    models: tuple[ModelRoute, ...] = ()
    """What a session may choose from, the default first."""

    @property
    def sessions_dir(self) -> Path:
        return self.state_dir / "sessions"

    @property
    def credentials_file(self) -> Path:
        return self.config_dir / CREDENTIALS

    @property
    def private_dirs(self) -> tuple[str, ...]:
        """What tools may neither read nor write, in any mode."""
        return (str(self.state_dir), str(self.config_dir))


def settings_stamp(config_dir: Path) -> tuple[tuple[int, int, int] | None, ...]:
    """Differs when a settings file was written, replaced or removed. Cheap: asked before every prompt."""
    return tuple(_stamp(config_dir / name) for name in (CONFIG, CREDENTIALS))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def bare_settings(environ: Mapping[str, str]) -> Settings:
    """Directories and defaults, for what has to work whatever the files hold. Raises SettingsError."""
    return Settings(
        state_dir=_directory(environ, "ACP_BRIDGE_STATE_DIR", "user_state_path"),
        config_dir=_directory(environ, "ACP_BRIDGE_CONFIG_DIR", "user_config_path"),
    )


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Raises SettingsError."""
    bare = bare_settings(environ)
    where = bare.config_dir / CONFIG
    config, login = _read(where), _read(bare.credentials_file)
    route = _route(environ, bare.config_dir, config, login)
    return msgspec.structs.replace(
        bare,
        route=route,
        models=_offered(route, config, bare.config_dir),
        openai=_openai(
            OpenaiSettings(environ.get("OPENAI_API_KEY"), environ.get("OPENAI_BASE_URL")), config.openai, login.openai
        ),
        max_steps=_positive(config.max_steps, bare.max_steps, where, "max_steps"),
        max_parallel_tools=_positive(config.max_parallel_tools, bare.max_parallel_tools, where, "max_parallel_tools"),
        deadlines=_deadlines(config.undo_seconds, where),
        plugins=config.plugins,
    )


def _directory(environ: Mapping[str, str], name: str, default: str) -> Path:
    given = environ.get(name)
    if given:
        if not Path(given).is_absolute():
            raise SettingsError("environment", name, "expected an absolute path")
        return Path(given)
    import platformdirs  # a few ms, and most launches in tests and editors of teams name the directory

    homeless = SettingsError("environment", name, "is not set, and this user has no home directory")
    try:
        path: Path = getattr(platformdirs, default)("acp-bridge", appauthor=False)
    except RuntimeError:
        raise homeless from None
    if not path.is_absolute():  # older releases leave the `~` as it is, which would become a folder of the project
        raise homeless
    return path


def _read(path: Path) -> _File:
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return _File()
    except OSError as error:
        raise SettingsError(str(path), "(file)", f"cannot be read: {error.strerror}") from None
    try:
        return msgspec.convert(_toml(text, path), _File)
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at `$")
        raise SettingsError(str(path), key.strip("`.") or "(top level)", message) from None


def _toml(text: bytes, path: Path) -> dict[str, Any]:
    import tomllib  # only when a file exists

    try:
        return tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), "(file)", f"is not TOML: {error}") from None


def _route(environ: Mapping[str, str], config_dir: Path, config: _File, login: _File) -> ModelRoute | None:
    choices = (
        (environ.get("ACP_BRIDGE_MODEL"), "environment", "ACP_BRIDGE_MODEL"),
        (config.model, str(config_dir / CONFIG), "model"),
        (login.model, str(config_dir / CREDENTIALS), "model"),
    )
    value, where, key = next((choice for choice in choices if choice[0]), (None, "", ""))
    return _parsed(value, where, key) if value else None


def _openai(*layers: OpenaiSettings) -> OpenaiSettings:
    """A key that was stored with an endpoint goes to no other. An endpoint's own key comes first, then one from above,
    then one from below that was stored without any."""
    at = next((number for number, layer in enumerate(layers) if layer.base_url), None)
    if at is None:
        return OpenaiSettings(next((layer.api_key for layer in layers if layer.api_key), None))
    keys = (layers[at], *layers[:at], *(layer for layer in layers[at + 1 :] if not layer.base_url))
    return OpenaiSettings(next((layer.api_key for layer in keys if layer.api_key), None), layers[at].base_url)


def _offered(default: ModelRoute | None, config: _File, config_dir: Path) -> tuple[ModelRoute, ...]:
    named = [_parsed(value, str(config_dir / CONFIG), "models") for value in config.models]
    return tuple(dict.fromkeys([default, *named] if default else named))


def _parsed(value: str, where: str, key: str) -> ModelRoute:
    provider, slash, model = value.partition("/")
    if not (provider and slash and model):
        raise SettingsError(where, key, f"expected provider/model, not {value!r}")
    return ModelRoute(provider, model)


def _positive(value: int | None, default: int, where: Path, key: str) -> int:
    if value is not None and value < 1:
        raise SettingsError(str(where), key, "expected a whole number of at least 1")
    return value or default


def _deadlines(undo_seconds: float | None, where: Path) -> Deadlines:
    if undo_seconds is None:
        return Deadlines()
    if not LEAST_SECONDS <= undo_seconds <= MOST_SECONDS:
        raise SettingsError(str(where), "undo_seconds", f"expected seconds from {LEAST_SECONDS:g} to {MOST_SECONDS:g}")
    return Deadlines(undo_seconds)
