"""`acp-bridge sessions ...`: what is stored, for a person at a terminal.

Owns: the table of commands, and printing. Must not know: the file format, what any command does.
"""

from __future__ import annotations

import argparse
import os
import sys

from acp_bridge.errors import BridgeError
from acp_bridge_composition.commands.sessions.command import Command
from acp_bridge_composition.commands.sessions.listing import LIST
from acp_bridge_composition.commands.sessions.showing import SHOW

__all__ = ["sessions"]

COMMANDS: tuple[Command, ...] = (LIST, SHOW)


def sessions(arguments: list[str]) -> int:
    """Exit status: 0, 1 the command failed, 2 it was not understood."""
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as ended:
        return 2 if ended.code else 0
    try:
        for line in options.run(options):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except (BridgeError, OSError) as error:
        return _failed(error)
    return 0


def _failed(error: Exception) -> int:
    if isinstance(error, BrokenPipeError):
        # `| head` is enough for the reader; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    sys.stderr.write(f"acp-bridge: {error}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("acp-bridge sessions", description="The sessions on this machine.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = commands.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        command.configure(one)
        one.set_defaults(run=command.run)
    return parser
