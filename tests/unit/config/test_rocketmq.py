"""What some texts of the RocketMQ door's settings mean."""

import pytest

from halfhitch.config.rocketmq import access_secrets, advertised_address
from halfhitch.config.secret import Secret
from halfhitch.errors import ConfigurationError


def test_a_secret_may_hold_colons() -> None:
    assert access_secrets([Secret("shop:a:long:secret")]) == {"shop": "a:long:secret"}


@pytest.mark.parametrize("text", ["shop1", "shop:short", ":a-long-secret", ""])
def test_a_pair_that_is_none_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError, match="halfhitch keygen") as refused:
        access_secrets([Secret(text)])
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (None, None),
        ("hh.shop", ("hh.shop", None)),
        ("hh.shop:9876", ("hh.shop", 9876)),
        ("[2001:db8::1]:80", ("2001:db8::1", 80)),
        ("192.0.2.1", ("192.0.2.1", None)),
    ],
)
def test_host_and_port(text: str | None, address: object) -> None:
    assert advertised_address(text) == address


@pytest.mark.parametrize("text", ["", "hh.shop:0", "hh.shop:65536", "http://hh", "2001:db8::1"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"halfhitch\.shop\.svc:9876"):
        advertised_address(text)
