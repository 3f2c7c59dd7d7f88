"""The JSON schema subset for tool arguments, and their validation (contracts §3.2).

Owns: which keywords exist and what they mean. Must not know any tool. Invariant: validation is total and collects
every violation with its path; defaults are never applied; a boolean is no number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["unsupported", "violations"]

_ANNOTATIONS = {"description", "title", "default", "examples"}
_KEYWORDS = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties", "items", "enum", "minimum"}

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def unsupported(schema: dict[str, Any], path: str = "parameters") -> str | None:
    """None when the schema stays in the subset, else one complaint."""
    unknown = set(schema) - _KEYWORDS
    if unknown:
        return f"{path}: unknown keyword {sorted(unknown)[0]!r}"
    if schema.get("type") not in _TYPES:
        return f"{path}: type must be one of {', '.join(_TYPES)}"
    if not set(schema.get("required", ())) <= set(schema.get("properties", {})):
        return f"{path}: required names an unknown property"
    nested = {f"{path}.{key}": value for key, value in schema.get("properties", {}).items()}
    if "items" in schema:
        nested[f"{path}[]"] = schema["items"]
    return next((found for key, value in nested.items() if (found := unsupported(value, key))), None)


def violations(schema: dict[str, Any], value: Any) -> list[str]:
    """Every way in which `value` breaks `schema`, each with its path. The root tolerates extra properties."""
    return list(_check(schema, value, "arguments"))


def _check(schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    expected = schema["type"]
    if not _TYPES[expected](value):
        yield f"{path} must be {_article(expected)}, not {_name(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} must be one of {', '.join(map(repr, schema['enum']))}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{path} must be at least {schema['minimum']}"
    if expected == "object":
        yield from _check_object(schema, value, path)
    elif expected == "array" and "items" in schema:
        for index, item in enumerate(value):
            yield from _check(schema["items"], item, f"{path}[{index}]")


def _check_object(schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{path}.{key} is required"
    for key, item in value.items():
        if key in properties:
            yield from _check(properties[key], item, f"{path}.{key}")
        elif schema.get("additionalProperties") is False:
            yield f"{path}.{key} is not a known argument"


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aio" else f"a {name}"


def _name(value: Any) -> str:
    return next((name for name, test in _TYPES.items() if test(value)), type(value).__name__)
