"""Hypothesis strategies for everything that can stand in a log, made from the shapes themselves."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from acp_bridge.session.content import Message, Shape, TextBlock, ToolResultBlock, ToolSource
from acp_bridge.session.events import CORE_BODIES, Body, ErrorInfo, Event, Header, SurfaceReplace, ToolResult

__all__ = ["bodies", "events", "headers", "json_values", "shapes"]

texts = st.text(max_size=12)
integers = st.integers(-(2**53), 2**53)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: integers,
    str: texts,
    bool: st.booleans(),
    float: floats,
    Any: json_values,
    None: st.none(),
    type(None): st.none(),
}


@cache
def shapes(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as it stands in an annotation. Cached: building the strategies is what costs."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is ToolResult:
        return tool_results()
    if isinstance(kind, type) and issubclass(kind, Shape):
        fields = msgspec.structs.fields(kind)
        return st.builds(kind, **{field.name: _later(field.type) for field in fields})
    return _generic(get_origin(kind), get_args(kind))


def _later(kind: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: shapes(kind))


def _generic(origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([shapes(argument) for argument in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(shapes(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(shapes, arguments))
    assert origin is dict, f"no strategy for {origin}[{arguments}]"
    return st.dictionaries(texts, shapes(arguments[1]), max_size=3)


@st.composite
def tool_results(draw: st.DrawFn) -> ToolResult:
    """The one body with a rule of its own: a result answers one call."""
    call_id = draw(texts)
    block = ToolResultBlock(call_id, draw(shapes(tuple[TextBlock, ...])), draw(st.booleans()))
    message = Message(draw(texts), "user", (block,), ToolSource(call_id))
    meta = draw(st.none() | st.dictionaries(texts, json_values, max_size=3))
    return ToolResult(draw(integers), draw(integers), message, draw(shapes(ErrorInfo | None)), meta)


@cache
def bodies() -> st.SearchStrategy[Body]:
    return st.one_of([shapes(body) for body in CORE_BODIES])


@st.composite
def events(draw: st.DrawFn) -> Event:
    body = draw(bodies())
    seq = draw(st.integers(0, 2**53 - 1))
    surface: Literal["append"] | SurfaceReplace | None = None
    if type(body).SURFACE:
        surface = draw(st.just("append") | shapes(SurfaceReplace))  # type: ignore[arg-type]  # the literal
    sources = draw(shapes(tuple[int | tuple[int, int], ...] | None)) if surface else None
    return Event(body.TYPE, seq, draw(integers), body, surface, sources)


def headers() -> st.SearchStrategy[Header]:
    return shapes(Header)
