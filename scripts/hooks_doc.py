"""Write docs/hooks.md from acp_bridge/hookspecs.py; with --check, only say whether it is up to date (exit status 1).

Owns: the page's form. Invariant: nothing on the page is written by hand but this module's INTRO.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acp_bridge_plugins
from acp_bridge import hookspecs
from acp_bridge.lifecycle.hooks import PROJECT, mode_of

__all__ = ["implementers", "page"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "hooks.md"
INTRO = """\
# Hooks

<!-- Generated from acp_bridge/hookspecs.py by `make docs`; edit there. -->

A plugin takes part by methods marked `@hookimpl` that have a hook's name and exactly its arguments. Among several
listeners the order is that of the composition's table (docs/plugins.md); a plugin mounted for one session hears that
session only. Dispatch works on the listeners as of the call.

| mode | how listeners are called | a failure |
|---|---|---|
| emit | plain functions, one by one, answers ignored | is contained and written to the diagnostics |
| bail | plain functions, until one answers something other than None | is the caller's |
| parallel | coroutines, all started, all awaited | all failures are raised together |
| serial | coroutines, until one answers something other than None | is the caller's |
| waterfall | coroutines as an onion: `await next()` delegates, returning without it answers instead | is the caller's |
"""


def page() -> str:
    return "\n".join([INTRO, *(_section(name) for name in _names())])


def implementers(hook: str) -> list[str]:
    """The dotted names of the product's own classes that implement it."""
    return sorted({f"{cls.__module__}.{cls.__name__}" for cls in _plugin_classes() if _implements(cls, hook)})


def _names() -> list[str]:
    """In the order of the file, which is calling order."""
    source = inspect.getsource(hookspecs)
    return re.findall(r"^(?:async )?def (\w+)", source, re.M)


def _section(name: str) -> str:
    spec = getattr(hookspecs, name)
    signature = re.sub(r"\s+", " ", str(inspect.signature(spec)).replace("'", ""))
    own = ", ".join(f"`{path.split('.')[-3]}`" for path in implementers(name))
    lines = [
        f"## `{name}`",
        "",
        f"*{mode_of(spec)}* · implemented by {own}",
        "",
        f"    {'async ' if inspect.iscoroutinefunction(spec) else ''}def {name}{signature}",
        "",
        inspect.cleandoc(spec.__doc__ or ""),
        "",
    ]
    return "\n".join(lines)


def _plugin_classes() -> Iterator[type[Any]]:
    names = [f"acp_bridge_plugins.{found.name}.plugin" for found in pkgutil.iter_modules(acp_bridge_plugins.__path__)]
    for name in [*names, "acp_bridge.bridge.plugin"]:
        module = importlib.import_module(name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == name:
                yield cls


def _implements(cls: type[Any], hook: str) -> bool:
    return hasattr(getattr(cls, hook, None), f"{PROJECT}_impl")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/hooks.md is not what acp_bridge/hookspecs.py says: run `make docs`")
