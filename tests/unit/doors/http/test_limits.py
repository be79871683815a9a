"""The bounds of the door."""

from __future__ import annotations

from dataclasses import fields

import pytest

from halfhitch.doors.http import Limits
from halfhitch.errors import ConfigurationError


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_every_limit_must_be_positive_and_is_named(name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: value})


def test_the_defaults_fit_together() -> None:
    limits = Limits()
    assert limits.body_bytes_max < limits.buffered_bytes_max
    assert limits.in_flight_count_max < limits.connection_count_max < 1024
    assert limits.body_bytes_max > 1024 * 1024
