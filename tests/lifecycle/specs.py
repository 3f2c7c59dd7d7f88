"""One hook per mode, for tests of the dispatch."""

from __future__ import annotations

from acp_bridge.lifecycle.hooks import Next, hookspec

__all__ = ["asked", "forbidden", "heard", "told", "wrapped"]


@hookspec("emit")
def heard(word: str) -> None: ...


@hookspec("bail")
def forbidden(word: str) -> str | None: ...


@hookspec("parallel")
async def told(word: str) -> None: ...


@hookspec("serial")
async def asked(word: str) -> str | None: ...


@hookspec("waterfall")
async def wrapped(word: str, next: Next[str]) -> str:  # type: ignore[empty-body]  # a declaration
    ...
