"""Whether there is a model to talk to, and how a person provides one (ACP: authentication).

Owns: the offered methods and the `auth required` answer. Must not know: vendors, where credentials are kept.
Invariant: an `agent` method is always offered (registries ask for one); `terminal` only to clients that can; every
advertised method answers at once and may be called again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acp_bridge.errors import AuthRequired, InvalidParams
from acp_bridge.wire.acp_types import ClientCapabilities

__all__ = ["AuthMethods"]

_ENVIRONMENT = {
    "id": "environment",
    "name": "Use the configured model",
    "description": "Uses ACP_BRIDGE_MODEL and the provider's key from the environment or from `acp-bridge login`.",
}
_LOGIN = {
    "id": "login",
    "name": "Set up a model in the terminal",
    "description": "Asks for endpoint, key and model, and stores them for this user.",
    "type": "terminal",
    "args": ["login"],
}


class AuthMethods:
    """`missing()` is None when a model can be used now, else the sentence that says what to set. It may re-read
    settings: a login in another process must count without a restart."""

    def __init__(self, missing: Callable[[], str | None]) -> None:
        self._missing = missing

    def offered(self, client: ClientCapabilities) -> list[dict[str, Any]]:
        terminal = bool(client.auth and client.auth.terminal) or bool((client.meta or {}).get("terminal-auth"))
        return [_ENVIRONMENT, _LOGIN] if terminal else [_ENVIRONMENT]

    def authenticate(self, method_id: str) -> None:
        """Raises InvalidParams for an unknown method, AuthRequired when there still is no model."""
        if method_id not in (_ENVIRONMENT["id"], _LOGIN["id"]):
            raise InvalidParams(f"There is no authentication method {method_id!r}.", field="methodId")
        self.require_model()

    def require_model(self) -> None:
        missing = self._missing()
        if missing is not None:
            raise AuthRequired(missing)
