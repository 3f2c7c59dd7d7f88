"""The tool `run_command` (design §7, §12; contracts §8.5, §8.6).

Owns: turning a call into a plan, and the plan into one confined run. Must not know: which sandbox there is, who
approves. Invariant: what runs is the plan's argv in the narrower of the approved and the granted sandbox; without a
working sandbox nothing runs unless the mode is danger-full-access by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from acp_bridge.errors import SandboxUnavailable, ToolFailed
from acp_bridge.sandbox.policy import SandboxMode, SandboxPolicy
from acp_bridge.sandbox.sandbox import Confined, Sandbox
from acp_bridge.session.events import Presentation
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge.tools.visible import visible_line
from acp_bridge_plugins.tools_shell.command import PARAMETERS, Plan, asked, narrower
from acp_bridge_plugins.tools_shell.settings import ShellSettings

__all__ = ["RunCommand"]

# The shell's first act is one byte into the pipe that is its standard input: from then on the command has started.
_REPORTING = 'echo >&0; exec 0</dev/null; exec "$0" -c "$1"'


class RunCommand:
    name = "run_command"
    description = (
        "Run a shell command in the session's folder and wait for it. Output is limited: of a long one you get the "
        "beginning and the end. Nothing outlives the call: background processes end with the command. Commands run in "
        "a sandbox: writing works only where the session's mode allows it, the network is usually off, and git hooks "
        "and git configuration are read-only. Standard input is empty, so use non-interactive options. Prefer the "
        "file tools for reading and editing files."
    )
    parameters: dict[str, Any] = PARAMETERS

    def __init__(self, sandbox: Callable[[], Sandbox | None], settings: ShellSettings) -> None:
        self._sandbox = sandbox
        self._settings = settings

    def present(self, arguments: Any, cwd: str) -> Presentation:
        from acp_bridge_plugins.tools_shell.present import announced

        return announced(arguments, cwd)

    def concurrency_safe(self, arguments: Any) -> bool:
        return False

    async def prepare(self, execution: Execution) -> Prepared:
        from acp_bridge_plugins.tools_shell.present import planned

        plan = self._plan(execution)
        wider = plan.asked.mode if plan.asked.widened else None
        access = Access("execute", (plan.cwd,), sandbox=wider, justification=plan.asked.justification)
        return Prepared(planned(plan), access, plan)

    async def execute(self, execution: Execution) -> ToolOutcome:
        plan = execution.prepared.plan if execution.prepared else None
        if not isinstance(plan, Plan):
            raise ToolFailed("the command was not prepared, so it did not run")
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable("Commands can be run on Linux only so far; this one was not run.")
        _refuse_moved(plan.cwd)
        mode = narrower(plan.asked.mode, execution.sandbox_mode)
        if mode == "danger-full-access":
            return await self._bare(plan, execution)
        return await self._confined(plan, execution, mode)

    def _plan(self, execution: Execution) -> Plan:
        checked = asked(
            execution.arguments,
            execution.sandbox_mode,
            default_seconds=self._settings.default_timeout_seconds,
            longest_seconds=self._settings.longest_timeout_seconds,
        )
        cwd = _directory(checked.cwd, execution.session.cwd)
        return Plan((_shell(), "-c", checked.command), cwd, checked, self._settings.network)

    async def _bare(self, plan: Plan, execution: Execution) -> ToolOutcome:
        from acp_bridge_plugins.tools_shell import process, result, supervisor

        # -I and -S: the project's own modules and the user's site files are no part of this.
        argv = (sys.executable, "-I", "-S", supervisor.__file__, *plan.argv)
        launch = process.Launch(argv, plan.cwd, self._environment(plan), "lifeline")
        try:
            finished = await process.run(launch, execution.signal, plan.asked.timeout_seconds)
        except OSError as error:
            raise _not_started(error) from error
        return result.outcome(finished, "danger-full-access", None, plan.asked.timeout_seconds)

    async def _confined(self, plan: Plan, execution: Execution, mode: SandboxMode) -> ToolOutcome:
        sandbox = self._sandbox()
        if sandbox is None:
            raise SandboxUnavailable("There is no sandbox in this agent, so the command was not run.")
        roots = tuple(dict.fromkeys(map(os.path.realpath, execution.session.roots)))
        shell, _, command = plan.argv
        reporting = (shell, "-c", _REPORTING, shell, command)
        confined = await sandbox.confine(reporting, SandboxPolicy(mode, roots, plan.network), plan.cwd)
        # Kept when the run is cancelled: then the command did run, as far as anybody knows.
        ran = True
        try:
            outcome = await self._run_confined(plan, execution, mode, confined)
        except SandboxUnavailable:
            ran = False
            raise
        finally:
            if confined.settled is not None:
                confined.settled(ran)
        return outcome

    async def _run_confined(
        self, plan: Plan, execution: Execution, mode: SandboxMode, confined: Confined
    ) -> ToolOutcome:
        from acp_bridge_plugins.tools_shell import process, result

        launch = process.Launch(confined.argv, plan.cwd, self._environment(plan), "reports")
        try:
            finished = await process.run(launch, execution.signal, plan.asked.timeout_seconds)
        except OSError as error:
            if error.filename == plan.cwd:
                raise _not_started(error) from error
            raise SandboxUnavailable(
                f"The sandbox could not be started ({error.strerror}); nothing was run."
            ) from error
        reason = result.never_ran(finished, confined)
        if reason is not None:
            raise SandboxUnavailable(reason)
        return result.outcome(finished, mode, confined, plan.asked.timeout_seconds)

    def _environment(self, plan: Plan) -> dict[str, str]:
        from acp_bridge_plugins.tools_shell.environment import environment

        return environment(os.environ, _account(), plan.argv[0], self._settings.environment)


def _directory(wanted: str | None, cwd: str) -> str:
    """Canonical, existing. Raises ToolFailed."""
    try:
        # realpath first: `link/..` is where the kernel goes, not where the letters point.
        path = os.path.realpath(os.path.join(cwd, wanted or "."))  # noqa: PTH118  # pathlib drops `..`
        found = os.path.isdir(path)  # noqa: PTH112
        path.encode()
    except ValueError:
        raise ToolFailed("arguments.cwd holds a character that no path has", "INVALID_ARGS") from None
    if not found:
        raise ToolFailed(f"arguments.cwd: there is no directory {visible_line(path)}", "INVALID_ARGS")
    return path


def _refuse_moved(path: str) -> None:
    """A link that took the directory's place would lead the command somewhere that nobody was shown."""
    if os.path.realpath(path) != path:
        raise ToolFailed(f"{visible_line(path)} changed since it was shown, so the command did not run")


def _shell() -> str:
    """bash where there is one. Fixed places first: PATH may lead into the project."""
    import shutil

    found = (path for path in ("/bin/bash", "/usr/bin/bash", shutil.which("bash")) if path and os.path.isabs(path))  # noqa: PTH117
    return next((path for path in found if os.access(path, os.X_OK)), "/bin/sh")


def _account() -> Any:
    import pwd

    from acp_bridge_plugins.tools_shell.environment import Account

    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:
        # Containers run under ids that no file knows.
        return Account(str(os.geteuid()), "/")
    return Account(entry.pw_name, entry.pw_dir)


def _not_started(error: OSError) -> ToolFailed:
    return ToolFailed(f"the command could not be started ({error.strerror}: {error.filename}), so it did not run")
