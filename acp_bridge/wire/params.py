"""Decoding of params for handlers. Owns the sentence and the field that a bad parameter is reported with.

Must not know: which methods exist. Unknown members are ignored, as ACP asks of both sides.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from acp_bridge.errors import InvalidParams

__all__ = ["decode_params"]

T = TypeVar("T")

_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_PATH = re.compile(r" - at `(?:key in )?\$\.?(?P<path>[^`]*)`$")


def decode_params(raw: msgspec.Raw, type_: type[T]) -> T:
    """Decode the params of a request; absent params count as `{}`.

    Raises:
        InvalidParams: `field` is a path such as `prompt[0].text`, empty for the params as a whole.
    """
    try:
        return msgspec.json.decode(raw if memoryview(raw).nbytes else b"{}", type=type_)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams(f"The params cannot be read: {error}.") from None


def _invalid(text: str) -> InvalidParams:
    path = ""
    if (at := _PATH.search(text)) is not None:
        path = at["path"]
        text = text[: at.start()]
    if (missing := _MISSING.match(text)) is not None:
        field = f"{path}.{missing['name']}".lstrip(".")
        return InvalidParams(f"The parameter {field} is required.", field=field)
    subject = f"The parameter {path}" if path else "The params"
    return InvalidParams(f"{subject}: {text[:1].lower()}{text[1:]}.", field=path)
