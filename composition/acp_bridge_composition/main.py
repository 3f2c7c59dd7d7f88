"""The command line.

Owns: which command runs, and what must happen before anything else is imported: the working directory leaves
sys.path (an editor starts us inside arbitrary projects) and, for the agent, stdio is claimed.
Invariant: imports the standard library only at module level.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself costs milliseconds
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]

USAGE = """\
acp-bridge is an agent that code editors start over the Agent Client Protocol (ACP).
You rarely run it by hand: add it to your editor (see editor_configs/), which starts `acp-bridge` without arguments.

  acp-bridge [--verbose]         the agent, on stdin and stdout; diagnostics also on stderr
  acp-bridge demo [--yes]        a guided run of the whole agent, without editor or key
  acp-bridge login               store endpoint, key and model for this user
  acp-bridge doctor [--json]     what works here, what is missing, and how to get it
  acp-bridge run PROMPT          one prompt without an editor (run --help says more)
  acp-bridge sessions list       the sessions on this machine
  acp-bridge sessions show ID    one session's log, readably
  acp-bridge --version
"""


def main() -> None:
    """The console script. Exits with 0, 1 (the command failed), 2 (it was not understood); `run` has more."""
    _drop_working_directory()
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    # Editors append the `login` of a terminal method to the arguments they start the agent with (editors §7).
    verbose = arguments[:1] == ["--verbose"]
    arguments = arguments[verbose:]
    if not arguments:
        return _agent(verbose=verbose)
    command, *rest = arguments
    if command == "login":
        from acp_bridge_composition.commands.login import login

        return login(rest)
    if command == "sessions":
        from acp_bridge_composition.commands.sessions import sessions

        return sessions(rest)
    if command == "doctor":
        from acp_bridge_composition.commands.doctor import doctor

        return doctor(rest)
    if command == "run":
        from acp_bridge_composition.commands.run import run

        return run(rest)
    if command == "demo":
        from acp_bridge_composition.commands.demo import demo

        return demo(rest)
    if command in ("--version", "-V"):
        from acp_bridge_composition.version import version

        sys.stdout.write(f"acp-bridge {version()}\n")
        return 0
    sys.stderr.write(USAGE)
    return 0 if command in ("--help", "-h", "help") else 2


def _agent(*, verbose: bool) -> int:
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(USAGE)
        return 2
    import gc

    gc.disable()  # nothing is freed while modules load; collecting then costs several ms of the start
    from acp_bridge.wire.stdio import claim_stdio

    fds = claim_stdio()
    from acp_bridge_composition.agent_process import serve

    gc.enable()
    gc.freeze()
    return _left_at_once(serve(fds, verbose=verbose))


def _left_at_once(status: int) -> NoReturn:
    """Everything is at rest and on disk. A worker thread that was given up (a hanging import, a computation) would be
    joined by the interpreter for as long as it takes."""
    import os

    sys.stderr.flush()
    os._exit(status)


def _drop_working_directory() -> None:
    """An editor starts us in any project; a `json.py` there must not become ours. Our own checkout may stay."""
    import os

    own = os.path.realpath(__file__).rsplit(os.sep, 3)[0]
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109  # pathlib is imported only after this
    except OSError:
        here = ""
    if here != own:
        sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]


if __name__ == "__main__":
    main()
