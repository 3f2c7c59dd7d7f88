from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_bridge import hookspecs
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.session.events import Header
from acp_bridge.session.session import SessionStore
from tests.tools_files.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()

    def failure(hook: str, error: BaseException) -> None:
        raise error

    store = SessionStore(Hooks(hookspecs, failure))
    with store.entered(Header(1, "s", 0, str(root)), (str(root),)) as session:
        yield Bench(root, outside, session)
