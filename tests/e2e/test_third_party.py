"""Somebody else's plugin in the real agent: nothing until config.toml names it, then used, or told to be broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.worlds import project
from tests.support.agent import start_agent

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example_plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, and a distribution whose plugin fails to load."""
    target = tmp_path_factory.mktemp("third-party") / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    options = ["--no-build-isolation", "--quiet", "--target", str(target), str(EXAMPLE)]
    subprocess.run([*pip, *options], check=True, capture_output=True, timeout=120)
    (target / "failing.py").write_text(FAILING)
    info = target / "failing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[acp_bridge.plugins]\nfailing = failing:Failing\nwaiting = failing:Waiting\n"
    )
    return target


FAILING = """
from acp_bridge.lifecycle.kernel import ServiceKey

class Failing:
    name, needs = "failing", ()
    async def mount(self, context):
        raise OSError("no such device")

class Waiting:
    name, needs = "waiting", (ServiceKey("clock"),)
    async def mount(self, context): ...
"""


def environment(tmp_path: Path, site: Path, config: str) -> dict[str, str]:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.toml").write_text(config)
    return {"ACP_BRIDGE_CONFIG_DIR": str(folder), "PYTHONPATH": str(site)}


@pytest.mark.parametrize("named", [True, False])
async def test_an_installed_plugin_is_off_until_the_config_names_it(tmp_path: Path, site: Path, named: bool) -> None:
    env = environment(tmp_path, site, "[plugins.word_count]\n" if named else "")
    steps = play(tmp_path, [{"calls": [call("count", "count_words", {"path": "kept"})]}, text("So.")])
    async with start_agent(tmp_path, screenplay=steps, env=env, permissions="allow_once") as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        assert (await editor.prompt(session, "Count.")).stop_reason == "end_turn"
        view = editor.tool_calls(session)["count"]
    assert view.status == ("completed" if named else "failed")
    assert ("2" if named else "there is no tool 'count_words'") in view.text


@pytest.mark.parametrize(("name", "says"), [("failing", "no such device"), ("waiting", "waits for clock")])
async def test_a_plugin_that_does_not_come_up_is_told_where_sessions_start(
    tmp_path: Path, site: Path, name: str, says: str
) -> None:
    """Fail closed: the user wanted it, and it may be what keeps something from happening."""
    env = environment(tmp_path, site, f"[plugins.{name}]\n")
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")]), env=env) as editor:
        await editor.initialize()
        refused = await editor.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    assert says in refused["error"]["message"]
    assert f"[plugins.{name}]" in refused["error"]["message"]
