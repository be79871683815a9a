"""Two doors on one port: when they surely are, and when they may be two places."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.config.doors import doors_do_not_share_a_port, doors_of
from halfhitch.config.settings import AdminSettings, HttpSettings, RocketmqSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable


def settings_with(host: str, other: str, port: int = 8340) -> Settings:
    return Settings(
        http=HttpSettings(host=host, port=port), admin=AdminSettings(host=other, port=port)
    )


ONE_PLACE = [
    ("127.0.0.1", "127.0.0.1"),
    ("127.0.0.1", "0.0.0.0"),
    ("0.0.0.0", "127.0.0.2"),
    ("::1", "::"),
    ("[::1]", "::1"),
    ("0:0::1", "::1"),
    ("localhost", "127.0.0.1"),
    ("LOCALHOST", "127.0.0.1"),
    ("", "::1"),
    ("0.0.0.0", "localhost"),
    ("shop", "shop"),
]
TWO_PLACES = [
    ("127.0.0.1", "127.0.0.2"),
    ("0.0.0.0", "::"),
    ("127.0.0.1", "::1"),
    ("0.0.0.0", "::1"),
    ("localhost", "127.0.0.2"),
]
#: Where a name leads is not known before it is looked up.
PERHAPS_ONE_PLACE = [("shop", "0.0.0.0"), ("localhost", "::1")]


@pytest.mark.parametrize(("host", "other"), ONE_PLACE)
def test_doors_that_meet_at_an_address_need_two_ports(host: str, other: str) -> None:
    for one, another in ((host, other), (other, host)):
        sentence = doors_do_not_share_a_port(settings_with(one, another))
        assert sentence is not None
        assert sentence.startswith("http.port and admin.port are both 8340 on ")
        assert sentence.endswith("set admin.port to 8341.")


@pytest.mark.parametrize(("host", "other"), TWO_PLACES + PERHAPS_ONE_PLACE)
def test_doors_at_two_addresses_may_have_one_port(host: str, other: str) -> None:
    assert doors_do_not_share_a_port(settings_with(host, other)) is None
    assert doors_do_not_share_a_port(settings_with(other, host)) is None


@pytest.mark.parametrize(
    ("host", "other"), [pair for pair in ONE_PLACE + TWO_PLACES if "shop" not in pair]
)
def test_it_is_as_the_system_says(host: str, other: str) -> None:
    def listen(address: str, port: int) -> Awaitable[asyncio.Server]:
        loop = asyncio.get_running_loop()
        return loop.create_server(asyncio.Protocol, address.strip("[]"), port)

    async def can_both_listen() -> bool:
        try:
            async with await listen(other, 0), await listen(host, 0) as first:
                port: int = first.sockets[0].getsockname()[1]
        except OSError as error:
            pytest.skip(f"no such address here: {error}")
        async with await listen(host, port):
            try:
                async with await listen(other, port):
                    return True
            except OSError:
                return False

    sentence = doors_do_not_share_a_port(settings_with(host, other))
    assert asyncio.run(can_both_listen()) is (sentence is None)


def test_the_rocketmq_door_is_one_of_them_while_it_is_on() -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        rocketmq = RocketmqSettings(enabled=True, host=host, port=8341)
        sentence = doors_do_not_share_a_port(Settings(rocketmq=rocketmq))
        assert sentence is not None
        assert "admin.port and rocketmq.port are both 8341" in sentence
        assert sentence.endswith("set rocketmq.port to 9876.")
    for rocketmq in (
        RocketmqSettings(enabled=False, port=8341),
        RocketmqSettings(enabled=True, port=8341, host="127.0.0.2"),
    ):
        assert doors_do_not_share_a_port(Settings(rocketmq=rocketmq)) is None


def test_any_free_port_is_no_port_in_common() -> None:
    assert doors_do_not_share_a_port(settings_with("127.0.0.1", "127.0.0.1", port=0)) is None


def test_what_is_proposed_is_free() -> None:
    settings = Settings(
        http=HttpSettings(port=8341), rocketmq=RocketmqSettings(enabled=True, port=8340)
    )
    sentence = doors_do_not_share_a_port(settings)
    assert sentence is not None
    assert sentence.endswith("set admin.port to 9876.")


def test_each_group_of_settings_with_a_port_is_a_door() -> None:
    settings = Settings()
    with_ports = {
        name for name in settings.__struct_fields__ if hasattr(getattr(settings, name), "port")
    }
    assert with_ports == {name for name, _ in doors_of(settings)}
