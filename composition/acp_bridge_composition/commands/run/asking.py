"""The permission question on a terminal.

Owns: how a question looks there and reading its answer. Must not know: policy, agents.
Invariant: fail closed: only `y` or `yes` typed after the question is a yes; the whole of what would run is shown,
with nothing hidden in it; one question at a time.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator

import anyio

from acp_bridge.tools.visible import visible, visible_line
from acp_bridge_composition.commands.run.output import STDERR, Output
from acp_bridge_composition.embedded import Question

__all__ = ["Asker", "can_ask", "question_lines"]

STDIN = 0
LINE_BYTES = 4096


def can_ask() -> bool:
    """A person types on stdin and sees stderr."""
    return os.isatty(STDIN) and os.isatty(STDERR)


class Asker:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._one = anyio.Lock()

    async def answer(self, question: Question) -> bool:
        async with self._one:
            self._output.write(STDERR, "".join(f"{line}\n" for line in ("", *question_lines(question))))
            await self._output.drained()
            # What was typed before the question was shown is no answer to it.
            termios.tcflush(STDIN, termios.TCIFLUSH)
            self._output.write(STDERR, "Allow this once? [y/N] ")
            try:
                return (await _line()).strip().lower() in ("y", "yes")
            except anyio.get_cancelled_exc_class():
                self._output.write(STDERR, "\n")
                raise


def question_lines(question: Question) -> Iterator[str]:
    yield f"acp-bridge asks: {visible_line(question.title)}"
    if question.reason:
        yield f"  because: {visible_line(question.reason)}"
    for diff in question.diffs:
        for line in _diff(visible_line(diff.path), diff.old_text, diff.new_text):
            yield f"  | {line}"
    if question.text:
        for line in visible(question.text).split("\n"):
            yield f"  | {line}"


def _diff(path: str, old: str | None, new: str) -> Iterator[str]:
    import difflib

    # At line feeds only: splitlines would swallow the hidden characters that also end lines.
    before, after = [] if old is None else old.split("\n"), new.split("\n")
    for line in difflib.unified_diff(before, after, "(new file)" if old is None else path, path, lineterm=""):
        yield visible_line(line)


async def _line() -> str:
    """What is typed up to the return key; empty at the end of input."""
    typed = b""
    while not typed.endswith(b"\n"):
        await anyio.wait_readable(STDIN)
        data = os.read(STDIN, LINE_BYTES)
        if not data:
            return ""
        typed += data
    return typed.decode("utf-8", "replace")
