"""What holds for every test."""

import signal

import pytest
from hypothesis import settings

# On a busy machine a deadline for an example would fail tests for the load, not for the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Started in the background of a shell, or by nohup, these are ignored, and so they would be in every child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
