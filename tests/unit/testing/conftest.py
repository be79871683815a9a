"""What all tests of this folder have."""

from __future__ import annotations

import pytest

from harness.producers import SHELLS


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Of which producer: see harness/producers.py."""
    return request.param
