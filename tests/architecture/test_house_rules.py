"""The house rules that a machine can check: sizes, headers, one place for codes and for stdout."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("acp_bridge", "plugins", "composition", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if path.stat().st_size
)


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_stays_small_and_says_in_at_most_twelve_lines_what_it_owns(path: Path) -> None:
    tree = parsed(path)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    header = ast.get_docstring(tree, clean=False)
    assert header, "a module without a header"
    assert len(header.strip().splitlines()) <= 12
    too_long = [name for name, lines in functions(tree) if lines > 60]
    assert not too_long


def test_half_of_all_functions_have_at_most_ten_lines() -> None:
    lengths = sorted(lines for path in SOURCES for _, lines in functions(parsed(path)))
    assert lengths[len(lengths) // 2] <= 10


def test_json_rpc_codes_stand_in_one_module_only() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and 32000 <= node.value <= 32899
    }
    assert found == {"acp_bridge/wire/errors.py"}


def test_the_kernel_and_the_seams_name_no_plugin() -> None:
    plugins = {path.name for path in (ROOT / "plugins/acp_bridge_plugins").iterdir() if path.is_dir()}
    for path in (ROOT / "acp_bridge").rglob("*.py"):
        words = set(path.read_text(encoding="utf-8").replace("/", " ").replace(".", " ").split())
        assert not words & (plugins - {"__pycache__"}), path
