"""`pytest tests/scenarios --rewrite` writes what the ledger does now into the scenario files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the scenarios anew; the difference is for you to judge",
    )
