"""`acp-bridge doctor`: the live tree of this installation, what really works, and how to get what is missing.

Owns: mounting what an editor would get, without the connection to one, and the exit status. Must not know: how a
single thing is examined (checks.py) or shown (report.py).
Invariant: examines, never repairs; prints no secret; status 1 where the main job would not work.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager

import anyio
import msgspec

from acp_bridge.errors import BridgeError, SettingsError
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.wire.transport import Transport
from acp_bridge_composition.build import chosen_plugins, composed
from acp_bridge_composition.commands.doctor.checks import (
    check_model,
    check_plugins,
    check_sandbox,
    check_search,
    check_sessions,
)
from acp_bridge_composition.commands.doctor.report import Finding, PluginState, Report, text
from acp_bridge_composition.settings import Settings, bare_settings, load_settings
from acp_bridge_composition.version import version
from acp_bridge_composition.workshop import Workshop

__all__ = ["doctor", "examined"]

USAGE = "usage: acp-bridge doctor [--json]\n"
SECRETS = ("key", "token", "secret", "password")


def doctor(arguments: list[str]) -> int:
    """Exit status: 0 the main job works, 1 it does not, 2 usage."""
    if arguments not in ([], ["--json"]):
        sys.stderr.write(USAGE)
        return 2
    try:
        report = anyio.run(examined)
    except BridgeError as error:
        sys.stderr.write(f"acp-bridge: {error}\n")
        return 1
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n" if arguments else text(report))
    return 0 if report.works else 1


async def examined() -> Report:
    """Raises SettingsError when not even the directories are known, and what a plugin raised that must be there."""
    environ = dict(os.environ)
    settings, config = _settings(environ)
    shop = Workshop(settings, environ, Silent(), version(), _no_editor)
    async with open_scope("acp-bridge") as root:
        await composed(shop, root, front=False)
        findings = (
            config,
            check_plugins(shop),
            check_model(shop),
            await check_sandbox(shop.kernel, settings),
            await anyio.to_thread.run_sync(check_sessions, settings),
            check_search(),
        )
        works = all(finding.verdict != "problem" for finding in findings)
        return Report(version(), works, findings, _plugins(shop), root.describe())


def _settings(environ: dict[str, str]) -> tuple[Settings, Finding]:
    bare = bare_settings(environ)
    try:
        settings = load_settings(environ)
    except SettingsError as error:
        return bare, Finding("settings", "problem", str(error), "Correct it there; until then no session starts.")
    return settings, Finding("settings", "ok", str(bare.config_dir))


def _plugins(shop: Workshop) -> tuple[PluginState, ...]:
    states = []
    for plugin in chosen_plugins(shop)[:-1]:  # the last one is the connection to an editor
        mount = shop.kernel.mounts.get(plugin.name)
        settings = {key: _shown(key, value) for key, value in msgspec.structs.asdict(plugin.settings).items()}
        state = mount.state.value if mount else "not mounted"
        failure = None if mount is None or mount.failure is None else str(mount.failure)
        waits = mount.waits_for if mount else ()
        states.append(PluginState(plugin.name, state, plugin.entry.why, settings, waits, failure))
    return tuple(states)


def _shown(key: str, value: object) -> object:
    if any(word in key.lower() for word in SECRETS):
        return "set" if value else "not set"
    return value


def _no_editor() -> AbstractAsyncContextManager[Transport]:
    raise AssertionError("the doctor mounts no bridge")
