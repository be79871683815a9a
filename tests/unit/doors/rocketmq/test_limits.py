"""The bounds of the RocketMQ door."""

from dataclasses import fields

import pytest

from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.errors import ConfigurationError
from harness.defaults import rocketmq_limits


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_every_limit_must_be_positive_and_is_named(name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be positive"):
        rocketmq_limits(**{name: value})
