"""Exceptions to JSON-RPC errors (editors rule 22)."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from acp_bridge import errors
from acp_bridge.wire.errors import WireError, to_wire_error

TABLE: list[tuple[BaseException, int, dict[str, str] | None]] = [
    (errors.ParseError("The line is not JSON."), -32700, None),
    (errors.InvalidRequest("The frame has no method."), -32600, None),
    (errors.MethodNotFound("x/y"), -32601, {"method": "x/y"}),
    (errors.InvalidParams("The parameter cwd is required.", field="cwd"), -32602, {"field": "cwd"}),
    (errors.InvalidParams("The params: expected `object`."), -32602, {"field": ""}),
    (errors.SessionNotFound("s1"), -32002, None),
    (errors.AuthRequired("Set OPENAI_API_KEY."), -32000, None),
    (errors.ModelFailed("The key was refused.", "INVALID_CREDENTIAL", status=401), -32000, None),
    (errors.TurnFailed("The key was refused.", "INVALID_CREDENTIAL"), -32000, None),
    (errors.RequestCancelled(), -32800, None),
]


@pytest.mark.parametrize(("exc", "code", "data"), TABLE, ids=lambda value: type(value).__name__)
def test_each_known_failure_has_its_code_and_its_own_sentence(
    exc: BaseException, code: int, data: dict[str, str] | None
) -> None:
    assert to_wire_error(exc) == WireError(code, str(exc), data)


@pytest.mark.parametrize(
    "exc",
    [
        errors.SessionAlreadyOwned("s1", pid=5),
        errors.ModelFailed("The model is overloaded.", "RATE_LIMITED"),
        errors.TurnFailed("The turn failed.", "UNKNOWN"),
        errors.CheckpointFailed("s1", "No space left on device"),
        errors.ToolFailed("no"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_other_failure_of_ours_is_internal_with_details_and_no_other_key(exc: BaseException) -> None:
    assert to_wire_error(exc) == WireError(-32603, str(exc), {"details": str(exc)})


def test_an_unknown_exception_tells_its_class_and_never_its_text() -> None:
    error = to_wire_error(ValueError("Authorization: Bearer sk-secret"))
    assert error.code == -32603
    assert error.message == "Internal error"
    assert error.data == {"details": "ValueError was raised; the agent's log has the traceback."}


def test_a_session_that_is_not_there_is_named_in_the_words_clients_look_for() -> None:
    assert "Session not found" in to_wire_error(errors.SessionNotFound("abc")).message


def test_a_group_is_reported_as_the_failure_inside_it() -> None:
    group = ExceptionGroup("tasks", [ValueError("x"), ExceptionGroup("inner", [errors.SessionNotFound("s1")])])
    assert to_wire_error(group).code == -32002
    assert to_wire_error(BaseExceptionGroup("g", [KeyboardInterrupt()])).data == {
        "details": "KeyboardInterrupt was raised; the agent's log has the traceback."
    }


def test_a_subclass_keeps_the_code_of_its_family() -> None:
    class NoSuchFile(errors.SessionNotFound):
        pass

    assert to_wire_error(NoSuchFile("x")).code == -32002


def test_a_silent_error_of_ours_still_gets_a_message() -> None:
    assert to_wire_error(errors.InvalidRequest()).message == "InvalidRequest"


def test_numbers_appear_in_no_other_module_of_the_bridge() -> None:
    package = Path(inspect.getfile(errors)).parent
    codes = {-code for _, code, _ in TABLE} | {32603}
    users = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in codes
    ]
    assert set(users) == {"wire/errors.py"}
