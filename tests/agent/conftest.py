"""No deadline for an example: on a busy machine it would fail tests for the load, not for the code."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
