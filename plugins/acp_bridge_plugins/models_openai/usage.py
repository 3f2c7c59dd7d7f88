"""Token counts as chat completion endpoints report them, made disjoint (contracts §1.5).

Owns: the arithmetic. Must not know: streams. Invariant: a counter that was not reported stays unknown, and no
counter is negative.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from acp_bridge.session.content import Usage

__all__ = ["reported_usage"]


class _PromptDetails(Struct):
    cached_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class _Counts(Struct):
    """`prompt_cache_hit_tokens` is where one vendor counts what the others count in the prompt's details."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None


def reported_usage(reported: Any) -> list[Usage]:
    """Zero or one usage: counters that make no sense do not spoil the reply that they count."""
    try:
        counts = msgspec.convert(reported, _Counts | None)
    except ValueError:
        return []
    return [] if counts is None else [_disjoint(counts)]


def _disjoint(counts: _Counts) -> Usage:
    """Cached tokens leave the input counter, reasoning tokens the output counter."""
    prompt, completion = counts.prompt_tokens, counts.completion_tokens
    details = counts.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    if cached is None:
        cached = counts.prompt_cache_hit_tokens
    reasoning = counts.completion_tokens_details.reasoning_tokens if counts.completion_tokens_details else None
    # One vendor counts reasoning beside the completion; the total tells which way it was.
    beside = counts.total_tokens == (prompt or 0) + (completion or 0) + (reasoning or 0)
    return Usage(
        input_tokens=_less(prompt, cached),
        output_tokens=completion if beside else _less(completion, reasoning),
        cache_read_tokens=cached,
        reasoning_tokens=reasoning,
    )


def _less(whole: int | None, part: int | None) -> int | None:
    return None if whole is None else max(0, whole - (part or 0))
