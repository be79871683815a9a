"""Who is at either end of a connection."""

from typing import Any

import pytest

from halfhitch.doors.rocketmq.addresses import NOWHERE, address_of, ip_host, is_encrypted, shown


@pytest.mark.parametrize(
    ("sockname", "advertised", "text", "host"),
    [
        (("10.0.0.1", 9876), None, "10.0.0.1:9876", ("10.0.0.1", 9876)),
        (("10.0.0.1", 9876), ("hh.shop", None), "hh.shop:9876", ("10.0.0.1", 9876)),
        (("10.0.0.1", 9876), ("hh.shop", 80), "hh.shop:80", ("10.0.0.1", 80)),
        (("10.0.0.1", 9876), ("192.0.2.7", 80), "192.0.2.7:80", ("192.0.2.7", 80)),
        (("fe80::1%eth0", 1, 0, 2), None, "[fe80::1]:1", ("fe80::1", 1)),
        (("10.0.0.1", 1), ("2001:db8::1", None), "[2001:db8::1]:1", ("2001:db8::1", 1)),
    ],
)
def test_clients_are_told_what_they_dialled_unless_something_is_advertised(
    sockname: Any, advertised: Any, text: str, host: tuple[str, int]
) -> None:
    address = address_of(sockname, advertised)
    assert (address.text, address.host) == (text, host)


def test_message_ids_carry_an_ip_address_even_where_a_name_is_advertised() -> None:
    made = address_of(("127.0.0.1", 9876), ("hh.shop", None)).message_ids.make(7)
    assert made.startswith("7F000001")


@pytest.mark.parametrize("name", ["/run/door.sock", None, (), ("10.0.0.1",)])
def test_a_peer_without_an_ip_address_is_nowhere(name: object) -> None:
    assert ip_host(name) == NOWHERE


def test_ipv4_in_ipv6_is_shown_as_ipv4() -> None:
    assert ip_host(("::ffff:192.0.2.1", 5, 0, 0)) == ("192.0.2.1", 5)
    assert shown(("192.0.2.1", 5)) == "192.0.2.1:5"
    assert shown(("2001:db8::1", 5)) == "[2001:db8::1]:5"


def test_only_tls_is_encrypted() -> None:
    class Transport:
        def __init__(self, found: object) -> None:
            self.found = found

        def get_extra_info(self, name: str) -> object:
            assert name == "ssl_object"
            return self.found

    plain: Any = Transport(None)
    tls: Any = Transport(object())
    assert [is_encrypted(t) for t in (None, plain, tls)] == [False, False, True]
