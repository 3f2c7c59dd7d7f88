"""A confined command reaches no socket that has a path, wherever it is: behind it is a program without a sandbox."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_bridge.sandbox.policy import SandboxMode, SandboxPolicy
from acp_bridge_plugins.sandbox_local.local import LocalSandbox

pytestmark = pytest.mark.anyio

# Not the environment's own, which a checkout below the temporary directory hides from confined commands.
PYTHON = os.path.realpath(sys.executable)
REACHED, REFUSED = 0, 7
CONNECT = f"""
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError:
    sys.exit({REFUSED})
"""
OWN = (
    "import socket, sys; one = socket.socket(socket.AF_UNIX); one.bind('own'); one.listen(1); "
    "socket.socket(socket.AF_UNIX).connect('own')"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below the temporary directory, which confined commands see empty."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="acp-bridge-test-") as name:
        yield Path(name).resolve()


async def _status(folder: Path, mode: SandboxMode, *argv: str, network: bool = False) -> int:
    policy = SandboxPolicy(mode, (str(folder / "root"),), network)
    confined = await LocalSandbox(5.0, ()).confine((PYTHON, "-c", *argv), policy, str(folder / "root"))
    done = subprocess.run(confined.argv, capture_output=True, check=False)
    if confined.settled is not None:
        confined.settled(True)
    return done.returncode


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
@pytest.mark.parametrize("where", ["outside", "root/inside", "root/with a space"])
async def test_a_socket_that_somebody_listens_on_cannot_be_reached(
    folder: Path, where: str, mode: SandboxMode, network: bool
) -> None:
    (folder / "root").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / where))
        listening.listen(1)
        with socket.socket(socket.AF_UNIX) as reaching:
            reaching.connect(str(folder / where))
        assert await _status(folder, mode, CONNECT, str(folder / where), network=network) == REFUSED


async def test_sockets_of_its_own_work(folder: Path) -> None:
    (folder / "root").mkdir()
    assert await _status(folder, "workspace-write", OWN) == REACHED
