from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.chromium import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.chromium import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as window:
        yield window
