"""The agent as a process: from claimed stdio to a bounded exit.

Owns: signals, the end of input, and the exit status. Must not know: what the parts are.
Invariant: however it ends (end of input, SIGTERM, SIGINT, SIGHUP, a reader that vanished), one teardown runs; the
status is 0 unless the agent itself failed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio

from acp_bridge.errors import SettingsError
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.wire.stdio import StdioFds, StdioTransport
from acp_bridge_composition.build import composed
from acp_bridge_composition.diagnostics import FileDiagnostics
from acp_bridge_composition.settings import bare_settings, load_settings
from acp_bridge_composition.version import version
from acp_bridge_composition.workshop import Workshop

__all__ = ["bounded_exit", "serve"]

# Between two looks at whether the editor still lives.
PARENT_SECONDS = 1.0

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(fds: StdioFds, *, verbose: bool) -> int:
    """Run the agent on `fds` until it is asked to end. Returns the exit status."""
    environ = dict(os.environ)
    try:
        settings = bare_settings(environ)
    except SettingsError as error:
        os.write(2, f"acp-bridge: {error}\n".encode())
        return 1
    # What else is wrong is said when a session is wanted: editors show that, and little of an agent that never came up.
    with suppress(SettingsError):
        settings = load_settings(environ)
    diagnostics = FileDiagnostics(settings.state_dir, verbose=verbose)
    shop = Workshop(settings, environ, diagnostics, version(), lambda: StdioTransport(fds))
    try:
        anyio.run(_serve, shop)
    except BaseException as error:
        diagnostics.failure("the agent failed", error)
        return 1
    return 0


async def _serve(shop: Workshop) -> None:
    parent = os.getppid()
    async with open_scope("acp-bridge") as root:
        # Handlers before the first await: a SIGTERM during start must tear down like any other.
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            await composed(shop, root, follow=True)
            async with anyio.create_task_group() as tasks:

                async def on_signal() -> None:
                    async for _ in signals:
                        tasks.cancel_scope.cancel()
                        return

                async def on_orphaned() -> None:
                    # Input that another process holds open never ends, so an editor that was killed is looked for.
                    while os.getppid() == parent:  # noqa: ASYNC110  # nothing else tells that a parent has died
                        await anyio.sleep(PARENT_SECONDS)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(on_signal)
                tasks.start_soon(on_orphaned)
                await shop.bridge.closed.wait()
                tasks.cancel_scope.cancel()
            with bounded_exit(shop.deadlines.exit):
                await root.dispose()


@contextmanager
def bounded_exit(seconds: float) -> Iterator[None]:
    """A write that hangs in the kernel cannot be cancelled; the process must not stay behind for it."""
    last_resort = threading.Timer(seconds, os._exit, (1,))
    last_resort.daemon = True
    last_resort.start()
    try:
        yield
    finally:
        last_resort.cancel()
