"""The arguments of `acp-bridge run`, and what its exit statuses mean.

Owns: parsing and the table of statuses. Must not know: agents, terminals.
Invariant: what is not understood ends with status 2, the usage on stderr and nothing done.
"""

from __future__ import annotations

import argparse
import os
import sys

from msgspec import Struct

from acp_bridge.approval.modes import MODES
from acp_bridge_composition.embedded import Result

__all__ = ["FAILED", "Options", "exit_status", "parsed"]

FAILED, REFUSED, LIMIT = 1, 3, 4
# As a shell reports a program that SIGINT has ended.
CANCELLED = 130

_STATUSES = {
    "completed": 0,
    "error": FAILED,
    "refusal": REFUSED,
    "blocked": REFUSED,
    "max-tokens": LIMIT,
    "max-steps": LIMIT,
    "cancelled": CANCELLED,
}
_EPILOG = """\
exit status: 0 completed; 1 error; 2 usage; 3 refused by the model or a plugin, or a call was refused because nobody
could be asked; 4 the limit of tokens or steps was reached; 130 cancelled by control-C (128 + N for signal N)."""


class Options(Struct, frozen=True):
    """`prompt` is the text itself, read from stdin where `-` was given."""

    prompt: str
    cwd: str | None = None
    resume: str | None = None
    mode: str | None = None
    json: bool = False


def parsed(arguments: list[str]) -> Options:
    """Raises SystemExit: 0 after --help, 2 for what is not understood."""
    parser = _parser()
    given = parser.parse_args(arguments)
    prompt = _stdin(parser) if given.prompt == "-" else given.prompt
    if not prompt.strip():
        parser.error("the prompt is empty")
    return Options(prompt, given.cwd and os.path.abspath(given.cwd), given.resume, given.mode, given.json)  # noqa: PTH100  # Path.absolute keeps `..`


def exit_status(result: Result, *, unasked: bool) -> int:
    """`unasked`: some call was refused because nobody could be asked."""
    status = _STATUSES[result.stop_reason]
    return REFUSED if status == 0 and unasked else status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "acp-bridge run",
        description="Run one prompt without an editor: the reply on stdout, notes on stderr. See docs/run.md.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what to do; - reads it from stdin")
    parser.add_argument(
        "--cwd", metavar="DIR", help="the project (default: this directory; the session's own with --resume)"
    )
    parser.add_argument("--resume", metavar="ID", help="go on with a stored session")
    parser.add_argument(
        "--mode", choices=MODES, help="what may run without asking (default: ask, or the session's own)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line on stdout")
    return parser


def _stdin(parser: argparse.ArgumentParser) -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        return parser.error("the prompt on stdin is not UTF-8")
