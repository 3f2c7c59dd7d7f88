"""Exceptions to JSON-RPC errors. The only module that knows error numbers.

Invariant: no text of an exception outside the BridgeError family reaches the wire (it may hold a secret); -32603
carries `data {"details"}` and no other key, because Zed unwraps exactly that shape (editors rule 22).
"""

from __future__ import annotations

import msgspec

from acp_bridge.errors import (
    AuthRequired,
    BridgeError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ModelFailed,
    ParseError,
    RequestCancelled,
    SessionNotFound,
    TurnFailed,
)

__all__ = ["WireError", "to_wire_error"]

_INTERNAL_ERROR = -32603  # JSON-RPC 2.0 §5.1
_AUTH_REQUIRED = -32000  # ACP: authentication

_CODES: dict[type[BridgeError], int] = {
    ParseError: -32700,  # JSON-RPC 2.0 §5.1, as the next three
    InvalidRequest: -32600,
    MethodNotFound: -32601,
    InvalidParams: -32602,
    AuthRequired: _AUTH_REQUIRED,
    SessionNotFound: -32002,  # ACP: resource not found
    RequestCancelled: -32800,  # ACP: cancellation
}


class WireError(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: dict[str, str] | None = None


def to_wire_error(exc: BaseException) -> WireError:
    """`message` reads well by itself: some clients show nothing else."""
    cause = _the_cause(exc)
    if not isinstance(cause, BridgeError):
        sentence = f"{type(cause).__name__} was raised; the agent's log has the traceback."
        return WireError(_INTERNAL_ERROR, "Internal error", {"details": sentence})
    code = _code(cause)
    message = str(cause) or type(cause).__name__
    return WireError(code, message, {"details": message} if code == _INTERNAL_ERROR else _data(cause))


def _code(error: BridgeError) -> int:
    if isinstance(error, (ModelFailed, TurnFailed)) and error.code == "INVALID_CREDENTIAL":
        return _AUTH_REQUIRED
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), _INTERNAL_ERROR)


def _data(error: BridgeError) -> dict[str, str] | None:
    if isinstance(error, InvalidParams):
        return {"field": error.field}
    return {"method": error.method} if isinstance(error, MethodNotFound) else None


def _the_cause(exc: BaseException) -> BaseException:
    """What a task group wrapped: its first BridgeError, else its first leaf."""
    leaves = list(_leaves(exc))
    return next((leaf for leaf in leaves if isinstance(leaf, BridgeError)), leaves[0])


def _leaves(exc: BaseException) -> list[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        return [leaf for part in exc.exceptions for leaf in _leaves(part)]
    return [exc]
