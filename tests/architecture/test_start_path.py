"""What the agent imports before its first answers, measured in the real process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Each of these costs milliseconds that every start would pay, and none is needed before the first prompt.
FORBIDDEN = {
    "openai", "pydantic", "httpx", "httpx2", "watchfiles", "tomllib", "difflib", "getpass", "unittest", "http",
    "email", "xml", "sqlite3", "multiprocessing", "importlib.metadata", "rich", "argparse", "curses",
}  # fmt: skip
# Ours, needed with the first request, command or edit.
OUR_OWN_LATER = {
    "acp_bridge_plugins.models_openai.replies", "acp_bridge_plugins.models_openai.client",
    "acp_bridge_plugins.sandbox_local.local", "acp_bridge_plugins.tools_shell.process",
    "acp_bridge_composition.embedded", "acp_bridge_composition.commands.run",
}  # fmt: skip
THIRD_PARTY = {"anyio", "msgspec", "pluggy", "zstandard", "sniffio", "idna", "typing_extensions", "platformdirs"}
OURS = {"acp_bridge", "acp_bridge_plugins", "acp_bridge_composition"}


def imported_until_session_new(folder: Path) -> set[str]:
    screenplay = folder / "screenplay.json"
    screenplay.write_text('{"turns": []}')
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(folder), "mcpServers": []}},
    ]
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "ACP_BRIDGE_STATE_DIR": str(folder / "state"),
        "ACP_BRIDGE_MODEL": f"scripted/{screenplay}",
    }
    done = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", "-m", "acp_bridge_composition"],
        input="".join(json.dumps(request) + "\n" for request in requests).encode(),
        capture_output=True,
        env=environ,
        cwd=folder,
        timeout=30,
        check=True,
    )
    assert [json.loads(line).get("id") for line in done.stdout.splitlines()] == [1, 2]
    lines = done.stderr.decode().splitlines()
    names = {line.rsplit("|", 1)[1].strip() for line in lines if line.startswith("import time:")}
    return names - {"imported package"}  # the heading of the column


def test_nothing_heavy_is_imported_before_a_session_is_open(tmp_path: Path) -> None:
    imported = imported_until_session_new(tmp_path)
    assert "anyio" in imported, "the measurement itself is broken"
    assert not imported & FORBIDDEN
    assert not imported & OUR_OWN_LATER
    top = {name.split(".")[0] for name in imported}
    foreign = {name for name in top if name not in sys.stdlib_module_names and not name.startswith("_")}
    # `org` is what the standard library's copy module looks for on Jython.
    assert foreign - THIRD_PARTY - OURS <= {"sitecustomize", "usercustomize", "org"}
