"""The examples of a documentation page, so that tests can run them."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["blocks", "console"]

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The contents of the page's code blocks in this language, in order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no {language} block"
    return found


def console(block: str) -> tuple[str, str]:
    """A console block as the shell script that its `$` lines are, and what it shows."""
    lines = block.splitlines(keepends=True)
    return "".join(line[2:] for line in lines if line[:2] == "$ "), "".join(line for line in lines if line[:2] != "$ ")
