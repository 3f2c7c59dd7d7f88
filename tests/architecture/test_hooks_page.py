"""Every hook is documented, used for real and tested (issue: the page is made from the declarations)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from acp_bridge import hookspecs

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "hooks_doc.py"
DECLARED = re.findall(r"^(?:async )?def (\w+)", (ROOT / "acp_bridge" / "hookspecs.py").read_text(), re.M)


def test_the_page_is_what_the_declarations_say() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("hook", DECLARED)
def test_a_hook_says_what_it_means_and_has_an_implementer_and_a_test(hook: str) -> None:
    assert hook in hookspecs.__all__
    assert len((getattr(hookspecs, hook).__doc__ or "").split()) >= 5
    section = (ROOT / "docs" / "hooks.md").read_text().split(f"## `{hook}`\n")[1].split("\n## ")[0]
    assert re.search(r"implemented by `\w+`", section), f"nothing in the product implements {hook}"
    implemented = re.compile(rf"def {hook}\(self|hookspecs\.{hook}\b")
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert any(implemented.search(path.read_text()) for path in tests), f"no test implements or dispatches {hook}"


def test_the_list_of_hooks_is_whole() -> None:
    assert sorted(DECLARED) == sorted(hookspecs.__all__)
