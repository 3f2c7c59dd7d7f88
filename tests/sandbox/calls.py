"""One `run_command` call, made as the pipeline makes it: prepare, then execute what was prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.sandbox.sandbox import Sandbox
from acp_bridge.session.events import Header
from acp_bridge.session.log import SessionLog
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.tool import Execution, Prepared, ToolOutcome
from acp_bridge_plugins.sandbox_local.local import LocalSandbox
from acp_bridge_plugins.tools_shell.settings import ShellSettings
from acp_bridge_plugins.tools_shell.tool import RunCommand
from tests.support.quiet import QUIET

__all__ = ["Shell", "execution"]


def execution(
    root: Path, arguments: dict[str, Any], mode: SandboxMode = "workspace-write", stop: Signal | None = None
) -> Execution:
    session = Session(SessionLog(Header(1, "session", 0), ()), (str(root),), QUIET)
    return Execution(session, "call", "run_command", arguments, stop or Signal(), 1, 1, mode)


class Shell:
    """The tool over a real local sandbox, or over another one, or over none."""

    def __init__(
        self,
        root: Path,
        mode: SandboxMode = "workspace-write",
        *,
        private_dirs: tuple[str, ...] = (),
        sandbox: Sandbox | None = None,
        settings: ShellSettings | None = None,
    ) -> None:
        self.root = root
        self.mode = mode
        self.sandbox: Sandbox | None = sandbox or LocalSandbox(5.0, private_dirs)
        self.tool = RunCommand(lambda: self.sandbox, settings or ShellSettings())

    async def prepare(self, command: str, **arguments: Any) -> Prepared:
        return await self.tool.prepare(execution(self.root, {"command": command, **arguments}, self.mode))

    async def run(self, command: str, stop: Signal | None = None, **arguments: Any) -> ToolOutcome:
        call = execution(self.root, {"command": command, **arguments}, self.mode, stop)
        call.prepared = await self.tool.prepare(call)
        return await self.tool.execute(call)

    async def output(self, command: str, **arguments: Any) -> str:
        """What a command that must succeed printed."""
        outcome = await self.run(command, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.text.removesuffix("\n[exit code: 0]")
