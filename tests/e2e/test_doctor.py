"""`acp-bridge doctor` as a process: what it says of a machine is what was tried on it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import play, text
from tests.e2e.test_commands import BROKEN, path_with
from tests.support.agent import AGENT, agent_env

KEY = "sk-secret-0123456789"


def doctor(tmp_path: Path, *arguments: str, config: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "config"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config)
    environ = {**agent_env(tmp_path), "ACP_BRIDGE_CONFIG_DIR": str(folder), **env}
    return subprocess.run(
        [*AGENT, "doctor", *arguments],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def scripted(tmp_path: Path) -> dict[str, str]:
    return {"ACP_BRIDGE_MODEL": f"scripted/{play(tmp_path, [text('Hi.')])}"}


def problems(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """By subject: what is wrong, with its help."""
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return {one["about"]: f"{one['facts']} {one['help']}" for one in found if one["verdict"] == "problem"}


def test_where_the_main_job_works_it_says_so_and_ends_with_0(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    done = doctor(tmp_path, **scripted(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "The main job works." in done.stdout
    assert "tried: writes in the session's folder only, no network, the agent's files hidden" in done.stdout
    assert "tool run_command [active]" in done.stdout
    assert list((tmp_path / "state").iterdir()) == []
    assert [path.name for path in (tmp_path / "home").iterdir()] == []


def test_for_scripts_the_same_is_json(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json", **scripted(tmp_path))
    report = json.loads(done.stdout)
    assert report["works"] is True and problems(done) == {}
    shell = next(plugin for plugin in report["plugins"] if plugin["name"] == "tools_shell")
    assert shell["state"] == "active" and shell["settings"]["default_timeout_seconds"] == 120
    assert report["tree"]["children"][0]["name"] == "product"


def test_without_a_model_it_says_what_to_set_and_ends_with_1(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json")
    assert done.returncode == 1
    assert list(problems(done)) == ["model"] and "ACP_BRIDGE_MODEL" in problems(done)["model"]


def test_a_key_is_set_or_not_and_never_shown(tmp_path: Path) -> None:
    config = f'model = "openai/m"\n[openai]\napi_key = "{KEY}"\nbase_url = "http://localhost:1/v1"\n'
    for arguments in ((), ("--json",)):
        done = doctor(tmp_path, *arguments, config=config)
        assert done.returncode == 0
        assert "key set, endpoint http://localhost:1" in done.stdout
        assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize("what", BROKEN)
def test_a_sandbox_that_does_not_work_is_a_problem_with_a_way_out(tmp_path: Path, what: str) -> None:
    """Field case S1, from the other side."""
    path = path_with(tmp_path / "bin", *BROKEN[what])
    done = doctor(tmp_path, "--json", PATH=path, **scripted(tmp_path))
    assert done.returncode == 1
    assert list(problems(done)) == ["sandbox"] and "bubblewrap" in problems(done)["sandbox"]


def test_a_sandbox_that_confines_nothing_is_found_out(tmp_path: Path) -> None:
    """It runs what it is given, so probing by running is content; what the command could do gives it away."""
    bare = '#!/bin/sh\nwhile [ "$1" != "/bin/bash" ] && [ $# -gt 1 ]; do shift; done\nexec "$@"\n'
    (tmp_path / "state").mkdir()
    done = doctor(tmp_path, "--json", PATH=path_with(tmp_path / "bin", bare), **scripted(tmp_path))
    assert done.returncode == 1
    found = problems(done)["sandbox"]
    assert "wrote outside its folder and reached the network and read the agent's own files" in found
    assert list((tmp_path / "home").iterdir()) == []


def test_a_state_directory_that_cannot_hold_sessions_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    state = {"ACP_BRIDGE_STATE_DIR": str(tmp_path / "file" / "state")}
    done = doctor(tmp_path, "--json", **scripted(tmp_path), **state)
    assert done.returncode == 1
    assert "ACP_BRIDGE_STATE_DIR" in problems(done)["sessions"]


@pytest.mark.parametrize(
    ("config", "about", "says"),
    [
        ("model = 3\n", "settings", "config.toml: model"),
        ("[plugins.permission_modes]\nenabled = false\n", "plugins", "cannot be turned off"),
        ("[plugins.sandbox_local]\nenabled = false\n", "sandbox", "[plugins.sandbox_local]"),
    ],
    ids=["a wrong type", "a plugin that must be", "no sandbox"],
)
def test_what_the_config_breaks_is_named_with_its_key(tmp_path: Path, config: str, about: str, says: str) -> None:
    done = doctor(tmp_path, "--json", config=config, **scripted(tmp_path))
    assert done.returncode == 1
    assert says in problems(done)[about]


def test_what_it_does_not_understand_is_usage(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--yaml")
    assert (done.returncode, done.stdout) == (2, "") and "usage" in done.stderr
