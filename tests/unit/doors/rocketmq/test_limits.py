"""The bounds of the RocketMQ door."""

from dataclasses import fields

import pytest

from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.errors import ConfigurationError


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_that_lets_nothing_through_is_refused_with_its_default(
    name: str, value: int
) -> None:
    default = getattr(Limits(), name)
    with pytest.raises(ConfigurationError, match=f"{name} must be positive.*{default}"):
        Limits(**{name: value})
