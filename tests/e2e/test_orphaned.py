"""An editor that was killed while another process holds the agent's input open (design §13: vanished parent)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.e2e.plays import play, text
from tests.support.agent import AGENT, agent_env

pytestmark = pytest.mark.anyio

EDITOR = """
import subprocess, sys, time
agent = subprocess.Popen(sys.argv[1:], stdin=0)
print(agent.pid, flush=True)
time.sleep(300)
"""


async def test_the_agent_ends_when_its_editor_is_gone_although_its_input_is_open(tmp_path: Path) -> None:
    env = agent_env(tmp_path, ACP_BRIDGE_MODEL=f"scripted/{play(tmp_path, [text('Hi.')])}")
    ours, theirs = os.pipe()
    try:
        editor = subprocess.Popen(
            [sys.executable, "-c", EDITOR, *AGENT], stdin=ours, stdout=subprocess.PIPE, env=env, cwd=tmp_path
        )
        assert editor.stdout is not None
        agent = int(editor.stdout.readline())
        os.write(theirs, b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
        assert b'"id":1' in editor.stdout.readline()
        editor.send_signal(signal.SIGKILL)
        editor.wait()
        with anyio.fail_after(10):
            while Path(f"/proc/{agent}/cmdline").exists() and Path(f"/proc/{agent}/cmdline").read_bytes():
                await anyio.sleep(0.01)
    finally:
        os.close(ours)
        os.close(theirs)
        if editor.stdout is not None:
            editor.stdout.close()
