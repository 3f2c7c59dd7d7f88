import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def bubblewrap() -> str:
    """A bubblewrap that works here. Without one a test is skipped on a developer's machine and fails in CI."""
    found = shutil.which("bwrap")
    tried = [found or "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    if found is None or subprocess.run(tried, capture_output=True).returncode:
        if os.environ.get("CI"):
            pytest.fail("bubblewrap does not work here, and CI must not pass without it")
        pytest.skip("bubblewrap does not work here")
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A session's folder, beside room for things outside of it."""
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """git without the developer's own configuration."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "init.defaultBranch")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "main")
