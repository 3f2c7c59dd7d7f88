"""The built wheel, started inside a workspace whose files carry the names of our imports."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POISON = 'raise SystemExit("the workspace was imported")\n'
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})


@pytest.fixture(scope="module")
def wheel_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel itself, its libraries taken from the running one."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    site = next((environment / "lib").glob("python*")) / "site-packages"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(next(folder.glob("*.whl"))), str(site)], check=True)
    libraries = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    # A .pth with the path alone: the editable install's own .pth in there is not processed a second time.
    (site / "libraries.pth").write_text(f"{libraries}\n")
    return environment


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("anyio.py", "msgspec.py", "pluggy.py", "json.py", "zstandard.py", "os.py", "gc.py"):
        (tmp_path / name).write_text(POISON)
    for name in ("plugins", "composition", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(POISON)
    return tmp_path


def started(wheel_site: Path, workspace: Path, *, pythonpath: str | None) -> dict[str, object]:
    code = "from acp_bridge_composition.main import main; main()"
    script = wheel_site / "bin" / "acp-bridge"
    script.write_text(f"#!{wheel_site}/bin/python\n{code}\n")
    script.chmod(0o755)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(workspace), "ACP_BRIDGE_STATE_DIR": str(workspace / "state")}
    if pythonpath is not None:
        environ["PYTHONPATH"] = pythonpath
    done = subprocess.run(
        [str(script)],
        input=f"{INITIALIZE}\n".encode(),
        capture_output=True,
        cwd=workspace,
        env=environ,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_the_command_imports_nothing_from_the_workspace_it_starts_in(wheel_site: Path, workspace: Path) -> None:
    assert "result" in started(wheel_site, workspace, pythonpath=None)


def test_a_pythonpath_that_names_the_workspace_does_not_let_it_in(wheel_site: Path, workspace: Path) -> None:
    # os.py and json.py on PYTHONPATH break Python itself before our first line; libraries are what we can guard.
    for name in ("os.py", "json.py", "gc.py"):
        (workspace / name).unlink()
    assert "result" in started(wheel_site, workspace, pythonpath=".")
