"""What is attached now: to the process, to the event loop, to a kernel, and in registries.

Owns: looking. Must not know: plugins, what was done in between. Invariant: changes nothing; what two looks have in
common is told apart by name and number, never by identity, so that a kernel's own passing tasks are no difference.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

import anyio

from acp_bridge import hookspecs
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.lifecycle.scope import Scope
from acp_bridge.lifecycle.services import ServiceKey, Services
from acp_bridge.testing.steps import SteppedContext, Steps

__all__ = ["Attached", "CheckedKernel", "attached"]

Attached = Counter[str]
FDS = "/proc/self/fd"
# Threads of pools stay for the next call; only one that got a name of its own is somebody's.
POOLED = re.compile(r"Thread-\d+|AnyIO worker thread|asyncio_\d+|ThreadPoolExecutor-|MainThread")


class CheckedKernel(Kernel):
    """A kernel that knows who listens and what was ever provided, and counts the steps of what it mounts."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(hookspecs, Silent())
        self.listeners: dict[str, object] = {}
        self.published: dict[str, ServiceKey[Any]] = {}
        self.hooks = _RecordedHooks(self.listeners)
        self.services = _RecordedServices(self.published)
        self._steps = steps

    def _context(self, name: str, scope: Scope) -> SteppedContext:
        return SteppedContext(self._steps, name, scope, self.services, self.hooks, self.diagnostics)


class _RecordedHooks(Hooks):
    def __init__(self, listeners: dict[str, object]) -> None:
        super().__init__(hookspecs, lambda hook, error: None)
        self._recorded = listeners

    @contextmanager
    def registered(self, name: str, plugin: object, **options: Any) -> Iterator[None]:
        with super().registered(name, plugin, **options):
            self._recorded[name] = plugin
            try:
                yield
            finally:
                del self._recorded[name]


class _RecordedServices(Services):
    def __init__(self, published: dict[str, ServiceKey[Any]]) -> None:
        super().__init__()
        self._published = published

    def publish(self, services: Mapping[ServiceKey[Any], Any], plugin: str) -> None:
        super().publish(services, plugin)
        self._published.update({key.name: key for key in services})


def attached(kernel: CheckedKernel, services: Mapping[ServiceKey[Any], object]) -> Attached:
    """Sentences, with how often each is true."""
    return Counter([*_tasks(), *_descriptors(), *_threads(), *_mounted(kernel), *_registered(services)])


def _tasks() -> Iterator[str]:
    for task in anyio.get_running_tasks():
        yield f"the task {task.name or task.coro!r} still runs"


def _descriptors() -> Iterator[str]:
    if not os.path.isdir(FDS):  # noqa: PTH112  # strings, as in the listing
        return
    for name in os.listdir(FDS):  # noqa: PTH208
        try:
            target = os.readlink(f"{FDS}/{name}")  # noqa: PTH115
        except OSError:
            continue  # the listing's own
        yield f"a descriptor of {target} is still open"


def _threads() -> Iterator[str]:
    for thread in threading.enumerate():
        if not POOLED.match(thread.name):
            yield f"the thread {thread.name!r} still runs"


def _mounted(kernel: CheckedKernel) -> Iterator[str]:
    for name, listener in kernel.listeners.items():
        yield f"the listener {name!r} ({type(listener).__name__}) is still registered"
    for hook in hookspecs.__all__:
        if kernel.hooks.listening(getattr(hookspecs, hook)):
            yield f"somebody still listens to {hook}"
    for name, key in kernel.published.items():
        if kernel.get(key) is not None:
            yield f"the service {name!r} is still provided"
    for name in kernel.mounts:
        yield f"the plugin {name!r} is still mounted"


def _registered(services: Mapping[ServiceKey[Any], object]) -> Iterator[str]:
    """Of the services that follow the convention of registries, a context manager named `registered`."""
    for key, service in services.items():
        held = vars(service) if hasattr(service, "registered") else {}
        for entries in held.values():
            if isinstance(entries, Mapping | Set | list | tuple):
                yield from (f"the registry {key.name!r} still holds {entry!r}" for entry in entries)
