"""The diagnostics file of one agent process.

Owns: lines and tracebacks in `<state>/logs/agent.log`, 0600. Must not know: who writes.
Invariant: nothing reaches stdout, and stderr only when asked for: some editors show every byte of it in the chat.
A file that cannot be written is given up silently; diagnostics never stop the product.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["FileDiagnostics"]

# Bytes. The file is started over beyond this: the last problems matter, not the first.
LIMIT = 1_000_000


class FileDiagnostics:
    def __init__(self, state_dir: Path, *, verbose: bool = False) -> None:
        self._path = state_dir / "logs" / "agent.log"
        self._verbose = verbose

    def note(self, text: str) -> None:
        from datetime import UTC, datetime

        line = f"{datetime.now(UTC).isoformat(timespec='milliseconds')} [{os.getpid()}] {text}\n"
        if self._verbose:
            sys.stderr.write(line)
        try:
            self._append(line.encode("utf-8", "backslashreplace"))
        except OSError:
            return

    def failure(self, what: str, error: BaseException) -> None:
        import traceback

        self.note(f"{what}: {type(error).__name__}\n{''.join(traceback.format_exception(error))}")

    def _append(self, line: bytes) -> None:
        # One by one: with parents=True those above would get the umask's mode.
        for folder in reversed([self._path.parent, *self._path.parent.parents]):
            if not folder.exists():
                folder.mkdir(mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if self._path.exists() and self._path.stat().st_size > LIMIT:
            flags |= os.O_TRUNC
        fd = os.open(self._path, flags, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
