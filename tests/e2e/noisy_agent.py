"""The real agent with a plugin that makes every noise a library can make, whenever anything happens.

A program of its own, started instead of `acp-bridge`. It prints, warns, writes to descriptor 1, starts a child that
inherits its output, and raises inside an observer: at import, while mounting and at every event of a session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge_composition import main, order

__all__ = ["NOISY_AGENT", "WORDS"]

NOISY_AGENT = [sys.executable, "-X", "dev", __file__]
WORDS = ("printed", "written", "echoed", "warned of")


def noise(where: str) -> None:
    print(f"printed {where}", flush=True)
    os.write(1, f"written {where}\n".encode())
    subprocess.run(["echo", f"echoed {where}"], check=True)
    warnings.warn(f"warned of {where}", stacklevel=1)


class Noisy:
    name = "noisy"
    needs: tuple[Any, ...] = ()

    def __init__(self) -> None:
        noise("at construction")

    async def mount(self, context: Any) -> None:
        noise("at mounting")

    @hookimpl
    def session_event(self, session: Any, event: Any) -> None:
        noise(f"at {event.type}")
        raise RuntimeError(f"raised at {event.type}")


if __name__ == "__main__":
    order.PLUGINS = (*order.PLUGINS, order.Entry(Noisy.name, "for the test", lambda shop, own: Noisy()))
    main.main()
