"""An agent without any SDK, quick to start, that misbehaves on request: a prompt's first word says how."""

import json
import os
import subprocess
import sys
import time
from typing import Any


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def chunk(text: str) -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": content}
    say(method="session/update", params={"sessionId": "s1", "update": update})


def prompt(id: Any, word: str) -> None:
    if word == "leave":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if word == "torn":
        os.write(1, b'{"jsonrpc":')
        os._exit(0)
    if word in ("fork", "leak"):
        output = subprocess.DEVNULL if word == "fork" else None
        child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)
        chunk(str(child.pid))
    if word == "print":
        print("Loading 3 plugins", flush=True)
    if word == "flood":
        for _ in range(1000):
            chunk("x" * 1000)
    if word == "never":
        chunk("working")
        return
    say(id=id, result={"stopReason": "end_turn"})
    if word == "late":
        chunk("late")
    if word == "stay":
        time.sleep(60)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            say(id=message["id"], result={"protocolVersion": 1})
        elif method == "session/new":
            say(id=message["id"], result={"sessionId": "s1"})
        elif method == "session/prompt":
            prompt(message["id"], message["params"]["prompt"][0]["text"].split()[0])
        elif method == "_read":
            say(id=0, method="fs/read_text_file", params={"sessionId": "s1", "path": message["params"]["path"]})
        elif method == "_ask":
            say(id=1, method="session/request_permission", params=message["params"])
            say(method="$/cancel_request", params={"requestId": 1})
    sys.exit(int(os.environ.get("EXIT_STATUS", "0")))


main()
