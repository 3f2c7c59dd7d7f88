"""A session over a temporary directory, in which a tool can be prepared, interrupted and executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.schema import violations
from acp_bridge.tools.tool import EditorFiles, Execution, Tool, ToolOutcome


class Bench(Struct):
    """`root` is the session's directory; `outside` one that it does not hold."""

    root: Path
    outside: Path
    session: Session
    mode: SandboxMode = "workspace-write"
    editor: EditorFiles | None = None
    signal: Signal = field(default_factory=Signal)

    def execution(self, tool: Tool, arguments: dict[str, Any]) -> Execution:
        assert violations(tool.parameters, arguments) == []
        return Execution(self.session, "call-1", tool.name, arguments, self.signal, 1, 1, self.mode, editor=self.editor)

    async def prepared(self, tool: Tool, **arguments: Any) -> Execution:
        execution = self.execution(tool, arguments)
        execution.prepared = await tool.prepare(execution)
        return execution

    async def run(self, tool: Tool, *, meanwhile: Callable[[], object] = lambda: None, **arguments: Any) -> ToolOutcome:
        """Prepare, let `meanwhile` happen while the person thinks, execute."""
        execution = await self.prepared(tool, **arguments)
        meanwhile()
        return await tool.execute(execution)

    async def refused(self, tool: Tool, *, code: str | None = None, **options: Any) -> str:
        """Run, expect a ToolFailed with `code`, and return its sentence."""
        with pytest.raises(ToolFailed) as caught:
            await self.run(tool, **options)
        assert caught.value.code == code, caught.value
        return caught.value.message

    def file(self, name: str, data: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path
