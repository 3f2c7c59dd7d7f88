"""Pages of sessions, newest first (ACP: session/list).

Owns: order, filter and cursors. Must not know: where the snapshots come from.
Invariant: pure; filtered before paged; a cursor names a place in the order, not a row number, so sessions that come
or go while paging are neither skipped nor repeated.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from acp_bridge.errors import InvalidParams
from acp_bridge.persistence.persistence import SessionSnapshot

__all__ = ["session_page"]

PAGE = 50


def session_page(snapshots: Sequence[SessionSnapshot], cwd: str | None, cursor: str | None) -> dict[str, Any]:
    """Raises InvalidParams for a cursor that is not ours."""
    after = _decoded(cursor) if cursor else None
    wanted = sorted((s for s in snapshots if _matches(s, cwd)), key=_place)
    rest = [s for s in wanted if after is None or _place(s) > after]
    page = rest[:PAGE]
    result: dict[str, Any] = {"sessions": [_info(snapshot) for snapshot in page]}
    if len(rest) > PAGE:
        result["nextCursor"] = _encoded(_place(page[-1]))
    return result


def _matches(snapshot: SessionSnapshot, cwd: str | None) -> bool:
    if cwd is None:
        return True
    own = snapshot.header.cwd
    return own is not None and (own == cwd or os.path.realpath(own) == os.path.realpath(cwd))


def _place(snapshot: SessionSnapshot) -> tuple[float, str]:
    return (-snapshot.updated_at, snapshot.header.id)


def _info(snapshot: SessionSnapshot) -> dict[str, Any]:
    updated = datetime.fromtimestamp(snapshot.updated_at, UTC).isoformat(timespec="milliseconds")
    info = {
        "sessionId": snapshot.header.id,
        "cwd": snapshot.header.cwd or "/",
        "updatedAt": updated.replace("+00:00", "Z"),
    }
    return info | ({"title": snapshot.title} if snapshot.title else {})


def _encoded(place: tuple[float, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _decoded(cursor: str) -> tuple[float, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[float, str])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise InvalidParams("The cursor is not one of this agent's.", field="cursor") from None
