"""The environment of a command: what programs need to work, and nothing else (design §12, field case D10).

Owns: the list. Must not know: the process, providers of models. Invariant: pure; built up from nothing, so that a
variable nobody thought of stays with the agent; keys of model providers are left out even when they are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

__all__ = ["Account", "environment"]

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIXED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "TMPDIR": "/tmp",  # noqa: S108  # private inside the sandbox
    # The words that tell a refusal by the sandbox are English (contracts §8.4).
    "LC_MESSAGES": "C",
}


class Account(Struct, frozen=True):
    """The user that runs the agent. Some editors start it without HOME and USER."""

    name: str
    home: str


def environment(parent: Mapping[str, str], account: Account, shell: str, named: Sequence[str] = ()) -> dict[str, str]:
    """`named` are further variables that the settings pass on."""
    passed = {name: parent[name] for name in named if name in parent and not _withheld(name)}
    return {
        **passed,
        **_locale(parent),
        "PATH": parent.get("PATH") or _DEFAULT_PATH,
        "HOME": parent.get("HOME") or account.home,
        "USER": parent.get("USER") or account.name,
        "SHELL": shell,
        **_FIXED,
    }


def _locale(parent: Mapping[str, str]) -> dict[str, str]:
    # LC_ALL would outrank LC_MESSAGES, so it comes down to LANG.
    if everything := parent.get("LC_ALL"):
        return {"LANG": everything}
    parts = {name: value for name, value in parent.items() if name.startswith("LC_")}
    return {"LANG": parent.get("LANG") or "C.UTF-8", **parts}


def _withheld(name: str) -> bool:
    return "API_KEY" in name.upper() or name.upper().startswith("ACP_BRIDGE_")
