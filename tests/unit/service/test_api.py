"""The little that the service's values decide themselves."""

import pytest

from halfhitch.service.api import Filter


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Filter(), True),
        (Filter(producer_group="shop"), True),
        (Filter(producer_group="bank"), False),
        (Filter(may_see=lambda group: group == "shop"), True),
        (Filter(may_see=lambda group: group == "bank"), False),
        (Filter(producer_group="shop", may_see=lambda _: False), False),
    ],
)
def test_a_group_is_asked_for_and_may_be_seen(wanted: Filter, takes: bool) -> None:
    assert wanted.takes_group("shop") is takes
