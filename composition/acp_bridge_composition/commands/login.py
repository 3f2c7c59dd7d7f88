"""`acp-bridge login`: ask for endpoint, key and model, and store them for this user.

Owns: the questions and credentials.toml (0600). Must not know: sessions, editors.
Invariant: the key is never echoed, printed or put into an error; the file is replaced atomically.
"""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

from acp_bridge.errors import SettingsError
from acp_bridge_composition.settings import bare_settings

__all__ = ["login"]


def login(arguments: list[str]) -> int:
    if arguments:
        sys.stderr.write("usage: acp-bridge login\n")
        return 2
    if not sys.stdin.isatty():
        sys.stderr.write("acp-bridge login asks questions; run it in a terminal.\n")
        return 2
    try:
        path = bare_settings(os.environ).credentials_file
    except SettingsError as error:
        sys.stderr.write(f"acp-bridge: {error}\n")
        return 1
    try:
        answers = _ask()
    except (EOFError, KeyboardInterrupt):
        sys.stderr.write("\nNothing was stored.\n")
        return 1
    if answers is None:
        return 1
    _store(path, answers)
    sys.stderr.write(f"Stored for this user in {path}. Start a new thread in your editor.\n")
    return 0


def _ask() -> dict[str, str] | None:
    """Endpoint, model and key; None when they cannot be enough."""
    base_url = input("Base URL of an OpenAI-compatible endpoint (empty for OpenAI itself): ").strip()
    model = input("Model name (for example gpt-5): ").strip()
    api_key = getpass.getpass("API key (not shown; empty if the endpoint needs none): ").strip()
    if not model:
        sys.stderr.write("A model name is needed. Nothing was stored.\n")
        return None
    if not api_key and not base_url:
        sys.stderr.write("OpenAI itself needs a key. Nothing was stored.\n")
        return None
    return {"model": f"openai/{model}", "base_url": base_url, "api_key": api_key}


def _store(path: Path, answers: dict[str, str]) -> None:
    lines = [f"model = {_quoted(answers['model'])}", "", "[openai]"]
    lines += [f"{key} = {_quoted(answers[key])}" for key in ("base_url", "api_key") if answers[key]]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's."""
    import json

    return json.dumps(text, ensure_ascii=False)
