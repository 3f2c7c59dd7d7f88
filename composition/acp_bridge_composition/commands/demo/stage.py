"""The demo's stage: a small project and the screenplay that plays the model.

Owns: their texts and writing them into a fresh folder. Must not know: the agent, the telling.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

__all__ = ["PROMPTS", "PUBLISHED", "Stage", "set_stage"]

PUBLISHED = "published.txt"

PROMPTS = (
    "The greeting is misspelt. Please fix it and run the check.",
    "Good. Now publish it.",
    "You were gone for a moment. What happened to the publishing?",
)

_PROJECT = {
    "greet.sh": '#!/bin/sh\n# Greets whoever is named.\necho "Helo, ${1:-world}!"\n',
    "check.sh": '#!/bin/sh\nsh greet.sh Ada | grep -x "Hello, Ada!" && echo "check passed"\n',
}

_TURNS: list[list[dict[str, object]]] = [
    [
        {
            "reasoning": "The file is small, so I look at it before I change anything.",
            "text": ["I will ", "look at ", "the script ", "first."],
            "chunk_ms": 60,
            "calls": [{"name": "read_file", "arguments": {"path": "greet.sh"}}],
        },
        {
            "text": "There it is: `Helo`.",
            "calls": [
                {
                    "name": "edit_file",
                    "arguments": {"path": "greet.sh", "old_text": "Helo", "new_text": "Hello"},
                }
            ],
        },
        {"calls": [{"name": "run_command", "arguments": {"command": "sh check.sh"}}]},
        {"text": ["Fixed: ", "the greeting ", "now says ", "`Hello`, ", "and the check passes."], "chunk_ms": 60},
    ],
    [
        {
            "text": "I publish it.",
            "calls": [
                {
                    "name": "run_command",
                    "arguments": {
                        "command": f"echo 'greet 1.0' >> {PUBLISHED} && sleep 600 && echo 'all mirrors done'"
                    },
                }
            ],
        },
    ],
    [
        {
            "expect": ["TOOL_OUTCOME_UNKNOWN"],
            "text": "The record says that nobody knows how that command ended, so I look instead of repeating it.",
            "calls": [{"name": "read_file", "arguments": {"path": PUBLISHED}}],
        },
        {
            "text": [
                "`published.txt` ",
                "has one entry: ",
                "the upload began once, ",
                "but the mirrors were not confirmed. ",
                "I have not run it again.",
            ],
            "chunk_ms": 60,
        },
    ],
]


class Stage(msgspec.Struct, frozen=True):
    """Absolute paths in one temporary folder, and the environment of the agent."""

    project: Path
    state: Path
    environ: dict[str, str]


def set_stage(folder: Path) -> Stage:
    project, state = folder / "project", folder / "state"
    project.mkdir()
    for name, text in _PROJECT.items():
        (project / name).write_text(text, encoding="utf-8")
    screenplay = folder / "screenplay.json"
    screenplay.write_bytes(msgspec.json.encode({"turns": [{"steps": steps} for steps in _TURNS]}))
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "ACP_BRIDGE_MODEL": f"scripted/{screenplay}",
        "ACP_BRIDGE_STATE_DIR": str(state),
        "ACP_BRIDGE_CONFIG_DIR": str(folder / "config"),
    }
    return Stage(project, state, environ)
