"""A client process of its own between a test and the agent, so that it can be killed like an editor that crashes.

`python relay.py COMMAND...` starts the command on pipes and copies both directions. It passes nothing else on: killed,
it leaves the agent with an end of input and a broken output in the same instant.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

__all__ = ["RELAY"]

RELAY = [sys.executable, "-S", "-E", __file__]


def _copy(source: int, target: int) -> None:
    while data := os.read(source, 1 << 16):
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
    os.close(target)


def run(command: list[str]) -> int:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        threading.Thread(target=_copy, args=(0, agent.stdin.fileno()), daemon=True).start()
        _copy(agent.stdout.fileno(), 1)
        return agent.wait()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
