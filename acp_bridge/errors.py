"""Every error that acp-bridge raises on purpose.

Owns: the classes, their facts (as fields) and the sentence a person reads. Imports the standard library only,
so that every layer can raise from here. Must not know: JSON-RPC codes; `wire/errors.py` alone turns these
into wire errors. Invariant: `str(error)` is one or two sentences that say what happened and what a person can do;
it never holds a secret.
"""

from __future__ import annotations

__all__ = [
    "AuthRequired",
    "BridgeError",
    "CheckpointFailed",
    "ConnectionClosed",
    "IllegalMove",
    "InvalidParams",
    "InvalidRequest",
    "LogCorrupt",
    "LogRuleBroken",
    "MethodNotFound",
    "ModelFailed",
    "ParseError",
    "PeerError",
    "PluginRejected",
    "RequestCancelled",
    "RequestTimedOut",
    "SandboxUnavailable",
    "ScopeClosed",
    "SessionAlreadyExists",
    "SessionAlreadyOwned",
    "SessionClosed",
    "SessionFormatUnsupported",
    "SessionNotFound",
    "SessionReadOnly",
    "SettingsError",
    "ToolFailed",
    "TurnFailed",
    "UndoTimedOut",
]


class BridgeError(Exception):
    """Base of the family. Never raised itself."""


class ParseError(BridgeError):
    """A line was not JSON, or was longer than the cap."""


class InvalidRequest(BridgeError):
    """JSON, but not a JSON-RPC request that can be served now."""


class MethodNotFound(BridgeError):
    def __init__(self, method: str) -> None:
        super().__init__(f"This agent has no method {method!r}.")
        self.method = method


class InvalidParams(BridgeError):
    """`field` is the JSON path of the offending parameter ('' for the whole object)."""

    def __init__(self, sentence: str, *, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


class RequestCancelled(BridgeError):
    """A request was cancelled with $/cancel_request (ACP: cancellation)."""

    def __init__(self) -> None:
        super().__init__("The request was cancelled.")


class RequestTimedOut(BridgeError):
    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"The editor did not answer {method} within {seconds:g} s.")
        self.method = method
        self.seconds = seconds


class PeerError(BridgeError):
    """The editor answered one of our requests with a JSON-RPC error."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"The editor answered {method} with an error: {message} ({code})")
        self.method = method
        self.code = code
        self.message = message


class ConnectionClosed(BridgeError):
    def __init__(self) -> None:
        super().__init__("The connection to the editor is closed.")


class AuthRequired(BridgeError):
    """No usable model. The sentence says what to set."""


class ScopeClosed(BridgeError):
    def __init__(self, scope: str, effect: str) -> None:
        super().__init__(f"Scope {scope!r} is closed and takes no new effect {effect!r}.")
        self.scope = scope
        self.effect = effect


class IllegalMove(BridgeError):
    def __init__(self, what: str, state: str, move: str) -> None:
        super().__init__(f"{what}: the move {move!r} is not allowed in state {state!r}.")
        self.what = what
        self.state = state
        self.move = move


class UndoTimedOut(BridgeError):
    def __init__(self, effect: str, seconds: float) -> None:
        super().__init__(f"Effect {effect!r} did not finish its undo within {seconds:g} s and was cancelled.")
        self.effect = effect
        self.seconds = seconds


class PluginRejected(BridgeError):
    """Raised before anything changed. Names plugin, what was wrong (a hook, a need) and the reason."""

    def __init__(self, plugin: str, what: str, reason: str) -> None:
        super().__init__(f"Plugin {plugin!r} was rejected: {what}: {reason}.")
        self.plugin = plugin
        self.what = what
        self.reason = reason


class SettingsError(BridgeError):
    """`where` is a file or an environment variable, `key` the setting."""

    def __init__(self, where: str, key: str, expected: str) -> None:
        super().__init__(f"{where}: {key}: {expected}.")
        self.where = where
        self.key = key
        self.expected = expected


class LogRuleBroken(BridgeError):
    """An event that the structural rules forbid (contracts §1.8)."""

    def __init__(self, rule: str, seq: int) -> None:
        super().__init__(f"Event {seq}: {rule}.")
        self.rule = rule
        self.seq = seq


class SessionNotFound(BridgeError):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session not found: {session_id}")
        self.session_id = session_id


class SessionAlreadyExists(BridgeError):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} already exists.")
        self.session_id = session_id


class SessionAlreadyOwned(BridgeError):
    """Another process (or handle) writes this session. `pid`, `since` (ISO 8601) and `editor` when known."""

    def __init__(
        self, session_id: str, *, pid: int | None = None, since: str | None = None, editor: str | None = None
    ) -> None:
        who = f"process {pid}" if pid is not None else "another process"
        by = f" for {editor}" if editor else ""
        at = f" since {since}" if since else ""
        super().__init__(f"Session {session_id} is in use by {who}{by}{at}. Close it there and load it again.")
        self.session_id = session_id
        self.pid = pid
        self.since = since
        self.editor = editor


class SessionReadOnly(BridgeError):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} was opened for reading.")
        self.session_id = session_id


class SessionClosed(BridgeError):
    """The handle or the live session was closed; no operation is possible any more."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} is closed.")
        self.session_id = session_id


class SessionFormatUnsupported(BridgeError):
    """An intact log that this version cannot read. Never used for damage."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class LogCorrupt(BridgeError):
    """Damage before the tail. `offset` is a byte offset in the file."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(
            f"{path}: damaged at byte {offset}: {reason}. Nothing was changed; "
            "what stands before that byte is whole: keep a copy of the file."
        )
        self.path = path
        self.offset = offset
        self.reason = reason


class CheckpointFailed(BridgeError):
    """The session log could not be made durable. `so` says what that has stopped, or what is not saved."""

    def __init__(self, session_id: str, reason: str, so: str = "nothing was started") -> None:
        super().__init__(
            f"The session log could not be written ({reason}), so {so}. Free space or repair the disk, then try again."
        )
        self.session_id = session_id
        self.reason = reason
        self.so = so


class ModelFailed(BridgeError):
    """`code` is one of contracts §3.4 (AUTH-like ones included), `status` the HTTP status if there was one."""

    def __init__(self, message: str, code: str = "UNKNOWN", *, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status


class TurnFailed(BridgeError):
    """A turn ended with `turn/end {error}`; the prompt that opened it gets this."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ToolFailed(BridgeError):
    """What a tool body raises to fail its call with text the model reads. `code` is from contracts §3.4 or None."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class SandboxUnavailable(ToolFailed):
    """No sandbox on this machine can enforce the mode; the command was not run (contracts §8.2)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "SANDBOX_UNAVAILABLE")
        self.reason = reason
