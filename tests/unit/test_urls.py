"""URLs that name several hosts."""

from __future__ import annotations

import pytest

from halfhitch.urls import split_hosts


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("redis+cluster://u:p@a:1,[::1]:2,c/0?ca=/x", "u:p@a:1,[::1]:2,c"),
        ("redis://[::1", "[::1"),
        ("redis://u:a]b@c", "u:a]b@c"),
        ("REDIS://a", "a"),
        ("redis://", ""),
    ],
)
def test_several_hosts_with_brackets_were_no_url_for_newer_pythons(url: str, hosts: str) -> None:
    assert split_hosts(url).netloc == hosts
    assert split_hosts(url).scheme == url.partition(":")[0].lower()


def test_what_stands_behind_the_hosts_is_split_as_ever() -> None:
    parts = split_hosts("redis+sentinel://a,[::1]:2/primary/3?ca=/x&key=/y#z")
    assert parts[2:] == ("/primary/3", "ca=/x&key=/y", "z")
    assert split_hosts("redis://u:p%40q@a,b").password == "p%40q"


@pytest.mark.parametrize("text", ["", "nothing", "redis:/a", "//", "[", "a b://c"])
def test_what_is_no_url_raises_nothing(text: str) -> None:
    split_hosts(text)
