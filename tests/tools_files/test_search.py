"""search and list_files over real ripgrep (field cases S2, S3, E2)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.errors import ToolFailed
from acp_bridge.session.events import AbortReason
from acp_bridge.tools import ripgrep
from acp_bridge.tools.tool import Tool
from acp_bridge_plugins.tools_files.list_files import ListFiles
from acp_bridge_plugins.tools_search.search import MAX_MATCHES, Search
from tests.tools_files.bench import Bench

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(bench: Bench) -> Bench:
    for name in ("a.py", "src/b.py", "src/c.txt", "ignored/d.py", ".github/ci.yml", ".git/config", "state/log.py"):
        bench.file(name, b"first\nneedle in " + name.encode() + b"\n")
    bench.file(".gitignore", b"ignored\n*.log\n")
    bench.file("src/x.log", b"needle\n")
    (bench.root / "link").symlink_to(bench.outside)
    (bench.outside / "secret.py").write_bytes(b"needle outside\n")
    return bench


def private(bench: Bench) -> tuple[str, ...]:
    return (f"{bench.root}/state",)


async def test_files_are_listed_sorted_as_git_sees_them(project: Bench) -> None:
    outcome = await project.run(ListFiles(private(project)))
    assert outcome.text.splitlines() == [".github/ci.yml", ".gitignore", "a.py", "src/b.py", "src/c.txt"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"path": "src"}, "src/b.py src/c.txt"),
        ({"path": "src/"}, "src/b.py src/c.txt"),
        ({"glob": "*.py"}, "a.py src/b.py"),
        ({"path": "src", "glob": "*.txt"}, "src/c.txt"),
        ({"glob": "**/.git/**"}, "No files."),
        ({"glob": "state/**"}, "No files."),
        ({"glob": "--version"}, "No files."),
        ({"path": ".git"}, ".git/config"),
    ],
)
async def test_a_list_can_be_narrowed_but_never_to_what_is_hidden(
    project: Bench, arguments: dict[str, Any], names: str
) -> None:
    outcome = await project.run(ListFiles(private(project)), **arguments)
    assert " ".join(outcome.text.splitlines()) == names


async def test_a_list_outside_names_whole_paths_and_declares_its_access(project: Bench) -> None:
    execution = await project.prepared(ListFiles(), path="link")
    assert execution.prepared is not None
    assert execution.prepared.access.paths == (str(project.outside),)
    assert (await ListFiles().execute(execution)).text == f"{project.outside}/secret.py"


async def test_a_long_list_is_cut_with_a_note(bench: Bench) -> None:
    for number in range(1001):
        bench.file(f"{number:04}", b"")
    lines = (await bench.run(ListFiles())).text.splitlines()
    assert lines[:2] == ["0000", "0001"]
    assert lines[1000:] == ["[Stopped after 1000 files; narrow the path or the glob.]"]


async def test_matches_carry_path_line_and_text_sorted_by_path(project: Bench) -> None:
    outcome = await project.run(Search(private(project)), pattern="needle")
    assert outcome.text.splitlines() == [
        ".github/ci.yml:2:needle in .github/ci.yml",
        "a.py:2:needle in a.py",
        "src/b.py:2:needle in src/b.py",
        "src/c.txt:2:needle in src/c.txt",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"pattern": "needle", "path": "src", "glob": "*.py"}, "src/b.py:2:needle in src/b.py"),
        ({"pattern": "needle", "path": "a.py"}, "a.py:2:needle in a.py"),
        ({"pattern": "^needle.*a\\.py$"}, "a.py:2:needle in a.py"),
        ({"pattern": "-e"}, "No matches."),
        ({"pattern": "--files"}, "No matches."),
        ({"pattern": "needle", "glob": "state/*"}, "No matches."),
        ({"pattern": "needle", "glob": ".git/config"}, "No matches."),
        ({"pattern": "outside"}, "No matches."),
    ],
)
async def test_a_search_takes_every_pattern_as_a_pattern(project: Bench, arguments: dict[str, Any], text: str) -> None:
    assert (await project.run(Search(private(project)), **arguments)).text == text


@pytest.mark.parametrize("tool", [Search, ListFiles])
async def test_private_directories_cannot_be_named_either(project: Bench, tool: type[Search] | type[ListFiles]) -> None:
    arguments = {"pattern": "needle"} if tool is Search else {}
    await project.refused(tool(private(project)), code="FS_SANDBOX_DENIED", path="state", **arguments)


async def test_a_private_directory_with_glob_characters_in_its_name_stays_private(bench: Bench) -> None:
    bench.file("s[t]a*e/key", b"needle\n")
    bench.file("state/other", b"needle\n")
    tool = Search((f"{bench.root}/s[t]a*e",))
    assert (await bench.run(tool, pattern="needle")).text == "state/other:1:needle"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"pattern": "foo("}, "unclosed group"),
        ({"pattern": "x", "glob": "{a"}, "error parsing glob"),
        ({"pattern": "a\0b"}, "cannot be searched for"),
        ({"pattern": "\ud800"}, "cannot be searched for"),
        ({"pattern": "x", "glob": "\0"}, "cannot be searched for"),
    ],
)
async def test_a_wrong_pattern_is_explained(bench: Bench, arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in await bench.refused(Search(), code="INVALID_ARGS", **arguments)


async def test_a_missing_place_and_a_pipe_are_named_and_nothing_blocks(bench: Bench) -> None:
    os.mkfifo(bench.root / "pipe")
    with anyio.fail_after(10):
        assert "cannot be searched" in await bench.refused(Search(), pattern="x", path="missing")
        assert "neither a file nor a directory" in await bench.refused(Search(), pattern="x", path="pipe")
        assert "read_file" in await bench.refused(ListFiles(), path=bench.file("f", b"").name)


async def test_many_matches_are_cut_with_a_note_and_the_search_is_ended(bench: Bench) -> None:
    bench.file("f", b"needle\n" * 200_000)
    with anyio.fail_after(10):
        outcome = await bench.run(Search(), pattern="needle")
    lines = outcome.text.splitlines()
    assert lines[MAX_MATCHES - 1] == "f:500:needle"
    assert lines[MAX_MATCHES:] == ["[Stopped after 500 matches; narrow the pattern, the path or the glob.]"]
    assert outcome.meta == {"matches": 500, "cut": True}


async def test_long_lines_and_odd_bytes_are_shown_in_bounds(bench: Bench) -> None:
    bench.file("long", b"needle" + b"x" * 100_000 + b"\n")
    bench.file("latin", b"needle caf\xe9\r\n")
    lines = (await bench.run(Search(), pattern="needle")).text.splitlines()
    assert lines[0] == "latin:1:needle caf\\xe9"
    assert len(lines[1]) < 700


async def test_names_with_hidden_characters_are_visible(bench: Bench) -> None:
    bench.file("a\x1b[0m\nb", b"")
    assert (await bench.run(ListFiles())).text == "a\\x1b[0m\\nb"
    with open(os.fsencode(bench.root) + b"/\xff", "wb"):
        pass
    assert "\\xff" in (await bench.run(ListFiles())).text


async def test_a_directory_swapped_for_a_link_is_not_searched(bench: Bench) -> None:
    bench.file("d/f", b"needle\n")
    (bench.outside / "f").write_bytes(b"needle outside\n")

    def swapped() -> None:
        (bench.root / "d").rename(bench.root / "moved")
        (bench.root / "d").symlink_to(bench.outside)

    assert "outside" not in await bench.refused(Search(), pattern="needle", path="d", meanwhile=swapped)


async def test_configuration_of_the_user_and_the_project_is_not_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.file(".ripgreprc", b"--files-with-matches\n")))
    bench.file("f", b"needle\n")
    assert (await bench.run(Search(), pattern="^needle")).text == "f:1:needle"


async def test_a_missing_ripgrep_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere:relative:")
    assert "pip install ripgrep" in await bench.refused(Search(), pattern="x")


async def test_an_rg_that_the_model_could_have_written_is_not_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = bench.file("bin/rg", b"#!/bin/sh\ntouch planted-ran\n")
    planted.chmod(0o755)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", f"{bench.root}/bin:bin:.")
    await bench.refused(Search(), pattern="x")
    assert not (bench.root / "planted-ran").exists()


@pytest.mark.parametrize("tool", [Search(), ListFiles()])
async def test_an_abort_ends_the_search_and_its_process(
    bench: Bench, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = bench.outside / "rg"
    fake.write_text(f"#!/bin/sh\necho $$ > {bench.outside}/pid\nexec sleep 1000\n")
    fake.chmod(0o755)
    monkeypatch.setattr(ripgrep, "binary", lambda roots: str(fake))
    os.mkfifo(bench.outside / "pid")
    arguments = {"pattern": "x"} if tool.name == "search" else {}
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def search() -> None:
                await bench.refused(tool, code="ABORTED", **arguments)

            tasks.start_soon(search)
            pid = int(await anyio.to_thread.run_sync(Path(bench.outside / "pid").read_text))
            bench.signal.abort(AbortReason("user"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_aborted_signal_starts_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = bench.outside / "rg"
    fake.write_text(f"#!/bin/sh\ntouch {bench.outside}/started\n")
    fake.chmod(0o755)
    monkeypatch.setattr(ripgrep, "binary", lambda roots: str(fake))
    execution = await bench.prepared(Search(), pattern="x")
    bench.signal.abort(AbortReason("user"))
    with pytest.raises(ToolFailed, match="aborted"):
        await Search().execute(execution)
    assert not (bench.outside / "started").exists()
