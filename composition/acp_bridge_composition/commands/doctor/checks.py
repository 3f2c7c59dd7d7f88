"""The doctor's examinations, each of one thing, by trying it.

Owns: what is tried and what its outcome means. Must not know: how a report looks.
Invariant: nothing is claimed that was not seen: the sandbox is judged by what a command inside could do, the session
directory by writing and locking in it. Nothing stays behind; no request is sent to a model.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from acp_bridge.errors import SandboxUnavailable, ToolFailed
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.sandbox.policy import SandboxPolicy
from acp_bridge.sandbox.sandbox import SANDBOX
from acp_bridge_composition.commands.doctor.report import Finding
from acp_bridge_composition.settings import Settings
from acp_bridge_composition.workshop import Workshop

__all__ = ["check_model", "check_plugins", "check_sandbox", "check_search", "check_sessions"]

# Each line does one thing that a confined command must be able to do, or must not, and says what came of it.
_SCRIPT = r"""
touch inside && echo inside
touch "$1" 2>/dev/null && echo outside
(exec 3<>/dev/tcp/127.0.0.1/"$2") 2>/dev/null && echo network
[ -r "$3" ] && echo private
true
"""
_SECONDS = 10.0


def check_plugins(shop: Workshop) -> Finding:
    trouble = shop.trouble() if shop.trouble else None
    if trouble is not None:
        return Finding("plugins", "problem", trouble)
    return Finding("plugins", "ok", f"{len(shop.kernel.mounts)} mounted")


def check_model(shop: Workshop) -> Finding:
    route = shop.settings.route
    missing = shop.missing_model()
    if missing is not None:
        return Finding("model", "problem", "no model can be used", missing)
    if route is None:
        return Finding("model", "problem", "no model is configured")
    key, base_url = shop.openai_credentials()
    details = f", key {'set' if key else 'not set'}, endpoint {_host(base_url)}"
    return Finding("model", "ok", f"{route.provider}/{route.model}{details if route.provider == 'openai' else ''}")


def _host(base_url: str | None) -> str:
    """Scheme, host and port: a URL can carry a password or a token."""
    if base_url is None:
        return "the official one"
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.hostname or '?'}{f':{parts.port}' if parts.port else ''}"


def check_sessions(settings: Settings) -> Finding:
    """Writes, fsyncs, links and locks, as a session does."""
    folder = settings.sessions_dir
    found = len(list(folder.glob("*/*/"))) if folder.is_dir() else 0
    try:
        at, free = _tried(folder)
    except OSError as error:
        why = f"{folder} cannot hold sessions: {error.strerror}"
        return Finding("sessions", "problem", why, "Set ACP_BRIDGE_STATE_DIR to a directory on a local disk.")
    facts = f"{found} in {folder} (tried in {at}), {free / 1e9:.1f} GB free"
    if free < 100_000_000:
        return Finding("sessions", "warning", facts, "Make space: a full disk stops every turn at its next checkpoint.")
    return Finding("sessions", "ok", facts)


def _tried(folder: Path) -> tuple[Path, int]:
    import fcntl

    while not folder.exists():
        folder = folder.parent
    with tempfile.TemporaryDirectory(dir=folder, prefix=".doctor-") as name:
        file = Path(name) / "file"
        with file.open("wb") as handle:
            handle.write(b"x")
            handle.flush()
            os.fsync(handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.link(file, Path(name) / "link")
    return folder, shutil.disk_usage(folder).free


def check_search() -> Finding:
    from acp_bridge.tools.ripgrep import binary

    try:
        return Finding("search", "ok", binary(()))
    except ToolFailed as error:
        return Finding("search", "warning", str(error), "Install acp-editor-bridge again: ripgrep comes with it.")


class _World(Struct, frozen=True):
    """What the confined command meets: its folder, a path outside, a listening port, a file of the agent's own."""

    folder: Path
    outside: Path
    port: int
    private: Path | None


@contextmanager
def _world(settings: Settings) -> Iterator[_World]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acp-bridge-doctor-")))
        # Not below the temporary directory, which a confined command has one of its own for.
        outside = Path(os.environ.get("HOME") or Path.cwd()) / f".acp-bridge-doctor-{os.getpid()}"
        stack.callback(outside.unlink, missing_ok=True)
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        private = None
        if settings.state_dir.is_dir():
            private = Path(stack.enter_context(tempfile.NamedTemporaryFile(dir=settings.state_dir)).name)
        yield _World(folder.resolve(), outside, listening.getsockname()[1], private)


async def check_sandbox(kernel: Kernel, settings: Settings) -> Finding:
    """Runs one confined command that tries what it must not be able to do."""
    sandbox = kernel.get(SANDBOX)
    if sandbox is None:
        help_ = "Set enabled = true under [plugins.sandbox_local] in config.toml."
        return Finding("sandbox", "problem", "no plugin provides one, so commands are refused", help_)
    with _world(settings) as world:
        try:
            confined = await sandbox.confine(
                ("/bin/bash", "-c", _SCRIPT, "doctor", str(world.outside), str(world.port), str(world.private or "")),
                SandboxPolicy("workspace-write", (str(world.folder),)),
                str(world.folder),
            )
        except SandboxUnavailable as error:
            return Finding("sandbox", "problem", "commands are refused", error.reason)
        done, status = await _run(confined.argv, world.folder)
        if confined.settled is not None:
            confined.settled(status == 0)
        if world.outside.exists():
            done.add("outside")
        return _judged(done, status, f"{confined.provider}, {confined.enforcement}", hidden=world.private is not None)


def _judged(done: set[str], status: int, provider: str, *, hidden: bool) -> Finding:
    wrong = {
        "outside": "wrote outside its folder",
        "network": "reached the network",
        "private": "read the agent's own files",
    }
    broken = [sentence for key, sentence in wrong.items() if key in done]
    if broken:
        return Finding("sandbox", "problem", f"{provider}: a confined command {' and '.join(broken)}")
    if status != 0 or "inside" not in done:
        return Finding("sandbox", "problem", f"{provider}: a confined command could not write in its own folder")
    tried = "writes in the session's folder only, no network" + (", the agent's files hidden" if hidden else "")
    return Finding("sandbox", "ok", f"{provider}; tried: {tried}")


async def _run(argv: tuple[str, ...], folder: Path) -> tuple[set[str], int]:
    said, status = "", -1
    with anyio.move_on_after(_SECONDS):
        done = await anyio.run_process(argv, check=False, cwd=folder, env={"PATH": os.environ.get("PATH", "")})
        said, status = done.stdout.decode(errors="replace"), done.returncode
    return set(said.split()), status
