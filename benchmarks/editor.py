"""A bare editor for benchmarks: blocking JSON lines over pipes, nothing between the clock and the wire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


class Editor:
    """Starts the agent at once; `spawned` is the monotonic time just before."""

    def __init__(self, folder: Path, model: str, base_url: str | None = None) -> None:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ACP_BRIDGE_STATE_DIR": str(folder / "state"),
            "ACP_BRIDGE_CONFIG_DIR": str(folder / "config"),
            "ACP_BRIDGE_MODEL": model,
        }
        if base_url:
            environ |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"}
        command = [str(Path(sys.executable).with_name("acp-bridge"))]
        self.spawned = time.monotonic()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, cwd=folder, bufsize=0
        )
        assert self.process.stdin
        assert self.process.stdout
        self._to, self._from = self.process.stdin, self.process.stdout
        self._buffer = b""
        self._next_id = 0

    def send(self, method: str, params: dict[str, Any]) -> int:
        self._next_id += 1
        frame = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self._to.write(json.dumps(frame).encode() + b"\n")
        return self._next_id

    def line(self) -> bytes:
        while b"\n" not in self._buffer:
            data = self._from.read(1 << 20)
            if not data:
                raise RuntimeError("the agent closed its output")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        number = self.send(method, params)
        while True:
            frame = json.loads(self.line())
            if frame.get("id") == number and "method" not in frame:
                if "error" in frame:
                    raise RuntimeError(frame["error"])
                result: dict[str, Any] = frame["result"]
                return result

    def open_session(self, folder: Path) -> str:
        self.request("initialize", protocolVersion=1, clientCapabilities={})
        session_id: str = self.request("session/new", cwd=str(folder), mcpServers=[])["sessionId"]
        return session_id

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def close(self) -> None:
        self._to.close()
        self._from.close()
        self.process.wait(timeout=10)

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
