"""The real agent for a test: its command, a nearly empty environment, and an editor around it.

Owns nothing but names. Invariant: no setting, key or path of the machine that runs the tests reaches the agent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.support.editor import Editor
from tests.support.openai_server import OpenAIServer

__all__ = ["AGENT", "agent_env", "start_agent"]

AGENT = [str(Path(sys.executable).with_name("acp-bridge"))]


def agent_env(tmp_path: Path, **extra: str) -> dict[str, str]:
    """PATH, an empty HOME and a state directory below `tmp_path`, and `extra`; the same on every call for a test."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ACP_BRIDGE_STATE_DIR": str(tmp_path / "state"),
        **extra,
    }


def start_agent(
    tmp_path: Path,
    *,
    server: OpenAIServer | None = None,
    model: str = "test-model",
    screenplay: Path | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
    command: Sequence[str] = AGENT,
    cwd: Path | None = None,
    **editor: Any,
) -> AbstractAsyncContextManager[Editor]:
    """The agent on `server`'s `model`, or on a `screenplay` file, or without a model; see `Editor.start` for the rest.

    Started again with the same `tmp_path` it finds the sessions of the run before. `command` is another way to start
    the same agent, for example one that stops at a chosen point.
    """
    settings = {}
    if screenplay is not None:
        settings = {"ACP_BRIDGE_MODEL": f"scripted/{screenplay}"}
    elif server is not None:
        settings = {
            "ACP_BRIDGE_MODEL": f"openai/{model}",
            "OPENAI_API_KEY": "test-key",
            "OPENAI_BASE_URL": server.base_url,
        }
    environment = agent_env(tmp_path, **{**settings, **(env or {})})
    return Editor.start([*command, *args], env=environment, cwd=cwd or tmp_path, **editor)
