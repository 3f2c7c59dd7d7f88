"""What every plugin should have: the proof that it leaves nothing behind."""

from __future__ import annotations

import pytest

from acp_bridge.testing import check_plugin
from acp_bridge_word_count.plugin import WordCount
from acp_bridge_word_count.settings import WordCountSettings


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_nothing_stays_behind_whatever_fails_or_is_cancelled() -> None:
    await check_plugin(lambda: WordCount(WordCountSettings()))
