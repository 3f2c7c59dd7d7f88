from __future__ import annotations

import pytest

from tests.persistence.helpers import Disk, failing_disk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return failing_disk(monkeypatch)
