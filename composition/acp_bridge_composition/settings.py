"""Settings: environment over config.toml over `acp-bridge login` over defaults (design §14).

Owns: names, types, defaults and where each value comes from. Must not know: who uses a setting.
Invariant: every error names file, key and what was expected; a repository's own files are never read here;
no error and no repr holds a key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from acp_bridge.errors import SettingsError

__all__ = ["ModelRoute", "OpenaiSettings", "Settings", "load_settings"]


class ModelRoute(msgspec.Struct, frozen=True):
    """`provider/model`; the model may hold slashes (a screenplay's path)."""

    provider: str
    model: str


class OpenaiSettings(msgspec.Struct, frozen=True):
    api_key: str | None = None
    base_url: str | None = None

    def __repr__(self) -> str:
        return f"OpenaiSettings(api_key={'set' if self.api_key else None}, base_url={self.base_url!r})"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shape of config.toml and of credentials.toml."""

    model: str | None = None
    max_steps: int | None = None
    max_parallel_tools: int | None = None
    openai: OpenaiSettings = OpenaiSettings()


class Settings(msgspec.Struct, frozen=True):
    """`max_steps` counts model requests per turn; `max_parallel_tools` overlapping calls of one step."""

    state_dir: Path
    config_dir: Path
    route: ModelRoute | None
    openai: OpenaiSettings
    max_steps: int = 200
    max_parallel_tools: int = 10

    @property
    def sessions_dir(self) -> Path:
        return self.state_dir / "sessions"

    @property
    def credentials_file(self) -> Path:
        return self.config_dir / "credentials.toml"

    @property
    def private_dirs(self) -> tuple[str, ...]:
        """What tools may neither read nor write, in any mode."""
        return (str(self.state_dir), str(self.config_dir))


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Raises SettingsError."""
    config_dir = _directory(environ, "ACP_BRIDGE_CONFIG_DIR", "user_config_path")
    config = _read(config_dir / "config.toml")
    login = _read(config_dir / "credentials.toml")
    return Settings(
        state_dir=_directory(environ, "ACP_BRIDGE_STATE_DIR", "user_state_path"),
        config_dir=config_dir,
        route=_route(environ, config, login),
        openai=OpenaiSettings(
            environ.get("OPENAI_API_KEY") or config.openai.api_key or login.openai.api_key,
            environ.get("OPENAI_BASE_URL") or config.openai.base_url or login.openai.base_url,
        ),
        max_steps=_positive(config.max_steps, 200, config_dir, "max_steps"),
        max_parallel_tools=_positive(config.max_parallel_tools, 10, config_dir, "max_parallel_tools"),
    )


def _directory(environ: Mapping[str, str], name: str, default: str) -> Path:
    given = environ.get(name)
    if given:
        if not Path(given).is_absolute():
            raise SettingsError("environment", name, "expected an absolute path")
        return Path(given)
    import platformdirs  # a few ms, and most launches in tests and editors of teams name the directory

    path: Path = getattr(platformdirs, default)("acp-bridge", appauthor=False)
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


def _route(environ: Mapping[str, str], config: _File, login: _File) -> ModelRoute | None:
    value = environ.get("ACP_BRIDGE_MODEL") or config.model or login.model
    if not value:
        return None
    provider, slash, model = value.partition("/")
    if not (provider and slash and model):
        where = "environment" if environ.get("ACP_BRIDGE_MODEL") else "config.toml"
        raise SettingsError(where, "ACP_BRIDGE_MODEL", f"expected provider/model, not {value!r}")
    return ModelRoute(provider, model)


def _positive(value: int | None, default: int, config_dir: Path, key: str) -> int:
    if value is not None and value < 1:
        raise SettingsError(str(config_dir / "config.toml"), key, "expected a whole number of at least 1")
    return value or default


def environment() -> Mapping[str, str]:
    return os.environ
