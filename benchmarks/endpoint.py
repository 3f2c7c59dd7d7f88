"""A local OpenAI-compatible endpoint for benchmarks, in a process of its own so that its CPU is not the agent's.

The model's name is the script: `chunks-5000-0` streams 5,000 pieces without a pause, `chunks-50-20` 50 pieces 20 ms
apart. Each piece carries the endpoint's clock (seconds, monotonic) so that delays can be told.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the first piece waits 40 ms for the acknowledgement of the headers

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, count, pause_ms = body["model"].split("-")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._stream(int(count), int(pause_ms) / 1000)

    def _stream(self, count: int, pause: float) -> None:
        batch = b""
        for _ in range(count):
            batch += self._event({"choices": [{"index": 0, "delta": {"content": f"{time.monotonic():.6f} "}}]})
            if pause:
                self._write(batch)
                batch = b""
                time.sleep(pause)
            elif len(batch) > 16_000:
                self._write(batch)
                batch = b""
        batch += self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._write(batch + b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, payload: dict[str, object]) -> bytes:
        head = {"id": "bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
        return b"data: " + json.dumps(head | payload).encode() + b"\n\n"

    def _write(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    sys.stdin.close() if sys.stdin.isatty() else None
    server.serve_forever()
