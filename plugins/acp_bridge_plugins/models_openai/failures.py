"""What a person reads when a model request fails, and its code (contracts §3.4, field case P9).

Owns: codes, sentences, shortening, keeping the key out. Must not know: the SDK's or HTTP library's types.
Invariant: pure; one readable paragraph that says what can be done; nothing that looks like a key is in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from acp_bridge.session.chunks import Failure
from acp_bridge_plugins.models_openai.decode import Fault

__all__ = [
    "Endpoint",
    "fault_failure",
    "http_failure",
    "provider_message",
    "scrubbed",
    "transport_failure",
]

_SHOWN = 300
_READ = 4000  # of a provider's words; the rest is never shown
_NESTING = 4  # deepest seen: a list of objects with an error object with a message
_KEY_LENGTH = 8  # shorter ones are placeholders such as "none", and would be cut out of ordinary words

_LONG_CONTEXT = re.compile(
    r"context[ _](length|window|size)|maximum context|prompt is too long|input is too long|too many (input )?tokens"
    r"|reduce the length",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(r"insufficient[ _](quota|balance|credit|funds)|billing|out of credits", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"\bmodel\b.*\b(not (found|exist)|does ?n.t exist|does not exist|unknown)|no such model", re.IGNORECASE
)
_KEY_LIKE = re.compile(r"\bsk-[\w*.-]{4,}|(?<=bearer )\S+|(?<![^\s'\":,])[^\s'\":,*]*\*{3,}[^\s'\":,]*", re.IGNORECASE)


class Endpoint(Struct, frozen=True):
    """Who was asked for what. `secret` is only ever compared with."""

    base_url: str
    model: str
    secret: str = ""
    official: bool = False

    @property
    def name(self) -> str:
        """The host alone: a base URL may carry a password or a token."""
        host = urlsplit(self.base_url).netloc.rpartition("@")[2]
        return f"The model provider at {host or '(no host)'}"

    @property
    def key_advice(self) -> str:
        return "Check OPENAI_API_KEY." if self.official else "Check OPENAI_API_KEY and OPENAI_BASE_URL."


def http_failure(endpoint: Endpoint, status: int, body: Any, headers: Mapping[str, str], *, now: float) -> Failure:
    """`headers` has lower-case names; `now` is epoch seconds, for a Retry-After that is a date."""
    said = provider_message(body)
    code = _http_code(status, f"{_words(body)} {said}")
    sentence = f"{endpoint.name} {_happened(endpoint, code, status)} (HTTP {status})."
    return _failure(
        endpoint,
        code,
        f"{sentence} {_advice(endpoint, code)}",
        said,
        status=status,
        retry_after_ms=_retry_after_ms(headers, now),
        request_id=headers.get("x-request-id"),
    )


def fault_failure(endpoint: Endpoint, fault: Fault) -> Failure:
    """The failure of a reply that began with HTTP 200."""
    if fault.kind == "reported":
        return _reported(endpoint, fault.body)
    code, sentence = _FAULTS[fault.kind]
    said = provider_message(fault.body)
    return _failure(endpoint, code, sentence.format(name=endpoint.name, model=endpoint.model), said, label="It sent")


def transport_failure(endpoint: Endpoint, reason: str, *, started: bool, timed_out: bool) -> Failure:
    """`started` says whether the reply had begun; `reason` is the library's own word for it."""
    if timed_out:
        sentence = f"{endpoint.name} did not answer in time. Prompt again, or check that it is running."
        return _failure(endpoint, "TIMEOUT", sentence, reason, label="Reason")
    if started:
        sentence = f"{endpoint.name}: the connection ended before the reply was complete. Prompt again."
    else:
        sentence = f"{endpoint.name} could not be reached. Check the network and OPENAI_BASE_URL."
    return _failure(endpoint, "TRANSPORT", sentence, reason, label="Reason")


_FAULTS = {
    "undecodable": ("PROTOCOL", "{name} sent something that is no chat completion stream. Check OPENAI_BASE_URL."),
    "cut": ("TRANSPORT", "{name}: the connection ended before the reply was complete. Prompt again."),
    "empty": (
        "EMPTY_RESPONSE",
        "{name} sent an empty reply. Prompt again, or check that {model!r} is its name of a chat model.",
    ),
    "unanswered": ("EMPTY_RESPONSE", "{name} sent reasoning but no answer. Prompt again."),
}


def _reported(endpoint: Endpoint, body: Any) -> Failure:
    """An error object inside the stream. Its code may be an HTTP status."""
    value = _parsed(body)
    status = _status_in(value)
    said = provider_message(value)
    code = _http_code(status or 500, f"{_words(value)} {said}")
    sentence = f"{endpoint.name} {_happened(endpoint, code, status or 500)} while it was replying."
    return _failure(endpoint, code, f"{sentence} {_advice(endpoint, code)}", said or _words(value), status=status)


def provider_message(body: Any) -> str | None:
    """The provider's own words in an error body, whatever shape it has; None for none, and for a web page."""
    value = _parsed(body)
    for _ in range(_NESTING):
        if isinstance(value, list):
            value = value[0] if value else None
        elif isinstance(value, dict):
            value = value.get("error") or value.get("message") or value.get("detail")
    page = isinstance(value, str) and value.lstrip().startswith("<")
    return value if isinstance(value, str) and value.strip() and not page else None


def scrubbed(text: str, secret: str) -> str:
    """`text` on one line without control characters, without the key and without what looks like a key."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:_READ]).split())
    if len(secret) >= _KEY_LENGTH:
        line = line.replace(secret, "***")
    return _KEY_LIKE.sub("***", line)


def _failure(
    endpoint: Endpoint,
    code: str,
    sentence: str,
    said: str | None,
    *,
    label: str = "The provider said",
    status: int | None = None,
    retry_after_ms: int | None = None,
    request_id: str | None = None,
) -> Failure:
    # Scrubbed before it is shortened: half a key would not be recognised.
    words = scrubbed(said or "", endpoint.secret)
    if len(words) > _SHOWN:
        words = words[: _SHOWN - 1] + "…"
    message = scrubbed(sentence, endpoint.secret) + (f" {label}: {words}" if words else "")
    return Failure(message, code, status, retry_after_ms, scrubbed(request_id, endpoint.secret) if request_id else None)


def _http_code(status: int, said: str) -> str:
    if status == 402 or (status == 429 and _NO_MONEY.search(said)):
        return "QUOTA"
    if status in _STATUS_CODES:
        return _STATUS_CODES[status]
    if status < 500 and _LONG_CONTEXT.search(said):
        return "CONTEXT_WINDOW_EXCEEDED"
    if status < 500 and ("model_not_found" in said or _NO_MODEL.search(said)):
        return "MODEL_NOT_FOUND"
    return "SERVER" if status >= 500 else "INVALID_REQUEST"


_STATUS_CODES = {401: "INVALID_CREDENTIAL", 403: "INVALID_CREDENTIAL", 408: "TIMEOUT", 429: "RATE_LIMIT"}

_HAPPENED = {
    "INVALID_CREDENTIAL": "refused the API key",
    "RATE_LIMIT": "is limiting the rate of requests",
    "QUOTA": "says that the account has no quota or credit left",
    "TIMEOUT": "did not answer in time",
    "CONTEXT_WINDOW_EXCEEDED": "says that the conversation is too long for the model",
    "SERVER": "failed",
}

_ADVICE = {
    "RATE_LIMIT": "Wait a little and prompt again.",
    "QUOTA": "Check the plan and billing of the account, or use another key.",
    "TIMEOUT": "Prompt again.",
    "CONTEXT_WINDOW_EXCEEDED": "Start a new thread, or use a model with a larger context window.",
    "SERVER": "This is the provider's fault; prompt again later.",
}


def _happened(endpoint: Endpoint, code: str, status: int) -> str:
    if status == 403:
        return f"does not let this API key use the model {endpoint.model!r}"
    if code == "MODEL_NOT_FOUND":
        return f"has no model {endpoint.model!r}"
    if status == 404:
        return "has nothing at this address"
    return _HAPPENED.get(code, "refused the request")


def _advice(endpoint: Endpoint, code: str) -> str:
    if code == "INVALID_CREDENTIAL":
        return endpoint.key_advice
    if code == "MODEL_NOT_FOUND":
        return "Set ACP_BRIDGE_MODEL=openai/NAME to one it serves, or check OPENAI_BASE_URL."
    if code == "INVALID_REQUEST":
        return f"Check OPENAI_BASE_URL and that {endpoint.model!r} is a chat model that can call tools."
    return _ADVICE[code]


def _parsed(body: Any) -> Any:
    if not isinstance(body, bytes):
        return body
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _words(body: Any) -> str:
    """The error's `code` and `type`, where it has them."""
    error = body.get("error", body) if isinstance(body, dict) else None
    words = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    return " ".join(str(word) for word in words if word)


def _status_in(body: Any) -> int | None:
    code = body.get("code") if isinstance(body, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return next((status for word, status in _STATUS_WORDS.items() if word in _words(body)), None)


_STATUS_WORDS = {
    "rate_limit": 429,
    "insufficient_quota": 429,
    "context_length": 400,
    "invalid_request": 400,
    "authentication": 401,
}


def _retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    for name, scale in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            wait = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= wait < 1e12:
            return int(wait)
    return _date_ms(headers.get("retry-after"), now)


def _date_ms(text: str | None, now: float) -> int | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0, int((parsedate_to_datetime(text).timestamp() - now) * 1000))
    except (ValueError, OverflowError):
        return None
