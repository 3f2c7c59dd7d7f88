"""ACP prompt blocks to the text of a user message (editors §4.1).

Owns: which blocks are taken and how they read. Must not know: sessions, models.
Invariant: pure; a prompt is taken whole or refused with the reason; an embedded resource is taken although it is
not advertised, because three editors send it regardless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from acp_bridge.errors import InvalidParams

__all__ = ["prompt_text"]


def prompt_text(blocks: Sequence[dict[str, Any]]) -> str:
    """Text blocks are joined as they stand: agent-shell splits one sentence over several. Raises InvalidParams."""
    text = "".join(_block(block, f"prompt[{index}]") for index, block in enumerate(blocks))
    if not text.strip():
        raise InvalidParams("The prompt is empty.", field="prompt")
    return text


def _block(block: dict[str, Any], path: str) -> str:
    kind = block.get("type")
    if kind == "text":
        return _string(block, "text", path)
    if kind == "resource_link":
        return _link(block, path)
    if kind == "resource":
        return _resource(block.get("resource"), path)
    if kind in ("image", "audio"):
        raise InvalidParams(f"This agent takes no {kind} blocks; it did not offer to.", field=path)
    raise InvalidParams(f"{path}.type must be text, resource_link or resource.", field=f"{path}.type")


def _link(block: dict[str, Any], path: str) -> str:
    target = _readable(_string(block, "uri", path))
    name = block.get("name")
    label = name if isinstance(name, str) and name else target.rsplit("/", 1)[-1]
    return f"[{label}]({target})"


def _resource(resource: Any, path: str) -> str:
    if not isinstance(resource, dict):
        raise InvalidParams(f"{path}.resource must be an object.", field=f"{path}.resource")
    target = _readable(_string(resource, "uri", f"{path}.resource"))
    text = resource.get("text")
    if not isinstance(text, str):
        return f"[{target}] (binary content, not included)"
    return f'\n<resource uri="{target}">\n{text}\n</resource>\n'


def _readable(uri: str) -> str:
    """A plain path for file: uris, percent-encoded or raw; fragments such as #L10:20 stay; other schemes stay whole."""
    if not uri.startswith("file://"):
        return uri
    parts = urlsplit(uri)
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return unquote(parts.path) + fragment


def _string(block: dict[str, Any], key: str, path: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise InvalidParams(f"{path}.{key} must be a string.", field=f"{path}.{key}")
    return value
