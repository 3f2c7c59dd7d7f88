"""What holds for every test."""

import pytest
from hypothesis import settings

# On a busy machine a deadline for an example would fail tests for the load, not for the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
