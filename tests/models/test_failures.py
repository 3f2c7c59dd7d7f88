"""What a person reads when a request fails: a code, one readable paragraph, and never the key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.chunks import Failure
from acp_bridge_plugins.models_openai.decode import Fault
from acp_bridge_plugins.models_openai.failures import (
    Endpoint,
    fault_failure,
    http_failure,
    provider_message,
    scrubbed,
    transport_failure,
)

KEY = "super-secret-value-123"
ENDPOINT = Endpoint("http://user:pw@models.test:8000/v1?token=t", "qwen", KEY)


def http(status: int, body: Any = None, **headers: str) -> Failure:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return http_failure(ENDPOINT, status, body, names, now=1_000_000_000.0)


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (401, {"message": "bad key"}, "INVALID_CREDENTIAL", ["OPENAI_API_KEY", "HTTP 401", "bad key"]),
        (403, None, "INVALID_CREDENTIAL", ["'qwen'", "OPENAI_API_KEY"]),
        (402, None, "QUOTA", ["credit"]),
        (429, {"message": "slow down"}, "RATE_LIMIT", ["rate", "slow down"]),
        (429, {"code": "insufficient_quota", "message": "x"}, "QUOTA", ["quota", "billing"]),
        (404, {"code": "model_not_found", "message": "no"}, "MODEL_NOT_FOUND", ["'qwen'", "ACP_BRIDGE_MODEL"]),
        (404, {"message": "model 'qwen' not found"}, "MODEL_NOT_FOUND", ["'qwen'"]),
        (400, {"message": "Model Not Exist"}, "MODEL_NOT_FOUND", ["'qwen'"]),
        (404, "<html>nothing</html>", "INVALID_REQUEST", ["nothing at this address", "OPENAI_BASE_URL"]),
        (400, {"code": "context_length_exceeded", "message": "x"}, "CONTEXT_WINDOW_EXCEEDED", ["too long"]),
        (400, {"message": "This model's maximum context length is 8"}, "CONTEXT_WINDOW_EXCEEDED", ["new thread"]),
        (413, {"message": "prompt is too long: 9 tokens"}, "CONTEXT_WINDOW_EXCEEDED", ["new thread"]),
        (422, {"detail": "tools: not allowed"}, "INVALID_REQUEST", ["tools: not allowed", "HTTP 422"]),
        (408, None, "TIMEOUT", ["in time"]),
        (500, {"message": "boom"}, "SERVER", ["HTTP 500", "boom"]),
        (503, "<html>", "SERVER", ["HTTP 503"]),
    ],
)
def test_an_http_error_has_a_code_and_says_what_can_be_done(
    status: int, body: Any, code: str, words: list[str]
) -> None:
    failure = http(status, body)
    assert (failure.code, failure.status) == (code, status)
    assert failure.message.startswith("The model provider at models.test:8000 ")
    for word in words:
        assert word in failure.message
    assert "pw" not in failure.message
    assert "token" not in failure.message or "tokens" in failure.message
    assert "<" not in failure.message


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "2"}, 2000),
        ({"retry_after": "0"}, 0),
        ({"retry_after": "1.5"}, 1500),
        ({"retry_after_ms": "250", "retry_after": "9"}, 250),
        ({"retry_after": "Sun, 09 Sep 2001 01:46:45 GMT"}, 5000),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "-1"}, None),
        ({}, None),
    ],
)
def test_the_wait_the_provider_asks_for_is_a_number(headers: dict[str, str], wait: int | None) -> None:
    failure = http(429, None, x_request_id="r-1", **headers)
    assert failure.provider_retry_after_ms == wait
    assert failure.request_id == "r-1"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "a"}, "a"),
        ([{"error": {"message": "a"}}], "a"),
        (b'{"message": "a"}', "a"),
        ({"detail": [{"message": "a"}]}, "a"),
        (b"plain", "plain"),
        ("<html>a</html>", None),
        (b"\xff", "�"),
        ({"error": {"error": {"error": {"error": {"error": {"error": "deep"}}}}}}, None),
        ([], None),
        (None, None),
        (5, None),
        ("  ", None),
    ],
)
def test_the_providers_own_words_are_found_in_any_shape(body: Any, message: str | None) -> None:
    assert provider_message(body) == message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"message": "busy", "code": 429}, "RATE_LIMIT"),
        ({"message": "busy", "code": "rate_limit_exceeded"}, "RATE_LIMIT"),
        ({"message": "pay", "type": "insufficient_quota"}, "QUOTA"),
        ({"message": "too much", "code": "context_length_exceeded"}, "CONTEXT_WINDOW_EXCEEDED"),
        ({"message": "bad tool", "type": "invalid_request_error"}, "INVALID_REQUEST"),
        ({"message": "boom"}, "SERVER"),
        ({"code": "abort"}, "SERVER"),
        ("boom", "SERVER"),
        (b'{"object": "error", "message": "boom", "code": 400}', "INVALID_REQUEST"),
    ],
)
def test_an_error_inside_the_stream_is_read_like_an_http_error(body: Any, code: str) -> None:
    failure = fault_failure(ENDPOINT, Fault("reported", body))
    assert failure.code == code
    assert "while it was replying" in failure.message
    said = provider_message(body) or "abort"
    assert said in failure.message


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (Fault("undecodable", b"{oops"), "PROTOCOL", "{oops"),
        (Fault("undecodable", b'{"error": {"message": "no such route"}}'), "PROTOCOL", "no such route"),
        (Fault("cut"), "TRANSPORT", "the connection ended before the reply was complete"),
        (Fault("empty"), "EMPTY_RESPONSE", "'qwen'"),
        (Fault("unanswered"), "EMPTY_RESPONSE", "no answer"),
    ],
)
def test_a_bad_reply_has_a_code_and_a_sentence(fault: Fault, code: str, words: str) -> None:
    failure = fault_failure(ENDPOINT, fault)
    assert failure.code == code
    assert words in failure.message


def test_a_network_failure_says_whether_the_reply_had_begun() -> None:
    assert transport_failure(ENDPOINT, "ReadTimeout", started=True, timed_out=True).code == "TIMEOUT"
    begun = transport_failure(ENDPOINT, "ReadError", started=True, timed_out=False)
    unreached = transport_failure(ENDPOINT, "ConnectError: refused", started=False, timed_out=False)
    assert (begun.code, unreached.code) == ("TRANSPORT", "TRANSPORT")
    assert "before the reply was complete" in begun.message
    assert "OPENAI_BASE_URL" in unreached.message
    assert "ConnectError: refused" in unreached.message


def test_the_providers_words_are_shortened_to_300_characters_on_one_line() -> None:
    message = http(500, {"message": "x\n\x1b[31m\u202e" * 300}).message
    said = message.partition("The provider said: ")[2]
    assert len(said) == 300
    assert said.endswith("…")
    assert said.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        "Incorrect API key provided: sk-proj-abcDEF123456.",
        "Incorrect API key provided: sk-ab***********wxyz.",
        "key: abcd****wxyz is wrong",
        f"Authorization: Bearer {KEY}",
        "got header Bearer eyJhbGciOi",
    ],
)
def test_nothing_that_looks_like_the_key_is_shown(text: str) -> None:
    message = http(401, {"message": text}).message
    for secret in (KEY, "abcDEF", "wxyz", "eyJ"):
        assert secret not in message
    assert "***" in message


@given(st.text(max_size=30), st.text(max_size=30))
def test_the_key_is_never_in_a_message_wherever_it_was_echoed(before: str, after: str) -> None:
    body = json.dumps({"error": {"message": before + KEY + after, "code": KEY}})
    failures = [
        http(400, json.loads(body), x_request_id=KEY),
        fault_failure(ENDPOINT, Fault("reported", json.loads(body))),
        fault_failure(ENDPOINT, Fault("undecodable", body.encode())),
        transport_failure(ENDPOINT, before + KEY, started=True, timed_out=False),
    ]
    for failure in failures:
        assert KEY not in repr(failure)


def test_scrubbing_takes_no_time_on_long_words() -> None:
    assert len(scrubbed("a" * 1_000_000, KEY)) < 5000


def test_a_placeholder_for_a_key_is_not_cut_out_of_words() -> None:
    assert scrubbed("the test failed", "test") == "the test failed"
