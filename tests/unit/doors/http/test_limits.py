"""The bounds of the door."""

from __future__ import annotations

from dataclasses import fields

import pytest

from halfhitch.doors.http import Limits
from halfhitch.errors import ConfigurationError
from harness.defaults import http_limits


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_every_limit_must_be_positive_and_is_named(name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=name):
        http_limits(**{name: value})


def test_the_defaults_fit_together() -> None:
    limits = http_limits()
    assert 1024 * 1024 < limits.body_bytes_max < limits.buffered_bytes_max
    assert limits.stream_count_max < limits.connection_count_max
