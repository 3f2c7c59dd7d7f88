"""Every plugin of ours comes and goes cleanly, whatever fails or is cancelled on its way."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import acp_bridge_plugins
from acp_bridge import hookspecs
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.lifecycle.kernel import Kernel, Plugin
from acp_bridge.llm.model import MODELS
from acp_bridge.persistence.persistence import PERSISTENCE
from acp_bridge.session.events import PresetSet
from acp_bridge.session.session import SessionStore
from acp_bridge.testing import check_plugin
from tests.support.rig import HEADER

pytestmark = pytest.mark.anyio

# From the folders, so that a new plugin is checked although nobody thought of it here.
FOLDERS = [module.name for module in pkgutil.iter_modules(acp_bridge_plugins.__path__) if module.ispkg]


def kind_of(folder: str) -> Any:
    module = importlib.import_module(f"acp_bridge_plugins.{folder}.plugin")
    (kind,) = [getattr(module, name) for name in module.__all__ if hasattr(getattr(module, name), "mount")]
    return kind


def arguments(folder: str, tmp_path: Path) -> dict[str, Any]:
    """Of the plugins that cannot be made without."""
    needed: dict[str, dict[str, Any]] = {
        "checkpoint_policy": {"store": SessionStore(Hooks(hookspecs, lambda hook, error: None))},
        "models_openai": {"credentials": lambda: ("a-key", "http://127.0.0.1:9")},
        "persistence_jsonl": {"root": tmp_path / "sessions"},
    }
    return needed.get(folder, {})


async def stores_a_session(kernel: Kernel) -> None:
    """A handle that nobody closes: with its files open, and an event that nobody flushes."""
    persistence = kernel.require(PERSISTENCE, "test")
    header = replace(HEADER, id=f"session-{os.urandom(4).hex()}")
    await persistence.create(header)
    store = SessionStore(kernel.hooks)
    with store.entered(header, ("/project",)) as session:
        session.log.append(PresetSet("ask"))
        assert await store.flush(session)
        session.log.append(PresetSet("auto-edit"))


async def connects(kernel: Kernel) -> None:
    """The client is made with the first request."""
    plugin: Any = kernel.mounts["models_openai"].plugin
    plugin._made("a-key", "http://127.0.0.1:9")
    assert kernel.require(MODELS, "test").unusable("openai", "a-model") is None


USES: dict[str, Callable[[Kernel], Awaitable[None]]] = {
    "persistence_jsonl": stores_a_session,
    "models_openai": connects,
}


@pytest.mark.parametrize("folder", FOLDERS)
async def test_it_leaves_nothing_behind_whatever_happens_on_its_way(folder: str, tmp_path: Path) -> None:
    kind = kind_of(folder)

    def make() -> Plugin:
        plugin: Plugin = kind(**arguments(folder, tmp_path))
        return plugin

    assert make().name == folder
    await check_plugin(make, use=USES.get(folder))


def test_the_folders_are_found() -> None:
    assert {"checkpoint_policy", "persistence_jsonl", "tools_files"} <= set(FOLDERS)
