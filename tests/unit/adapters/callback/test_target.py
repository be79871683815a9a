"""Where callbacks may go."""

from __future__ import annotations

import pytest

from halfhitch.adapters.callback.target import Target
from halfhitch.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "host_header", "is_tls"),
    [
        ("http://localhost", "localhost", 80, "/", "localhost", False),
        ("http://127.0.0.1:8080/a?c=d&e", "127.0.0.1", 8080, "/a?c=d&e", "127.0.0.1:8080", False),
        ("HTTPS://App.Example/x%20y", "app.example", 443, "/x%20y", "app.example", True),
        ("https://app:443?q", "app", 443, "/?q", "app", True),
        ("http://app:443/", "app", 443, "/", "app:443", False),
        ("http://[::1]:81/", "::1", 81, "/", "[::1]:81", False),
        ("http://xn--bcher-kva.at/", "xn--bcher-kva.at", 80, "/", "xn--bcher-kva.at", False),
    ],
)
def test_a_url_is_taken_apart(
    url: str, host: str, port: int, path: str, host_header: str, is_tls: bool
) -> None:
    target = Target.parse(url)
    assert (target.host, target.port, target.path) == (host, port, path)
    assert (target.host_header, target.is_tls) == (host_header, is_tls)


def test_the_name_for_people_has_no_query() -> None:
    assert Target.parse("http://app:81/x?secret=1").name == "http://app:81/x"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "//localhost/",
        "ftp://localhost/",
        "file:///etc/passwd",
        "gopher://localhost/",
        "unix:///run/app.sock",
        "http://",
        "http:///x",
        "http://:80/",
        "http://user@localhost/",
        "http://user:password@localhost/",
        "http://localhost@evil.example/",
        "http://localhost/#x",
        "http://localhost:0/",
        "http://localhost:65536/",
        "http://localhost:x/",
        "http://local host/",
        "http://localhost/a b",
        "http://localhost/\r\nHalf-Token: x",
        "http://localhost\t/",
        "http://bücher.example/",
        "http://localhost/é",
        "http://[::1/",
        "http://[::1%25lo]/",
        "http://a,b/",
        "http://*/",
        "http://localhost\\@evil.example/",
    ],
)
def test_a_url_that_is_not_in_order_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"checks\.url.*\.$"):
        Target.parse(url, ["0.0.0.0/0", "::/0"])


LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = [
    "10.0.0.1",
    "192.168.0.1",
    "172.16.0.1",
    "8.8.8.8",
    "100.64.0.1",
    "fd00::1",
    "2001:4860::8888",
    "::ffff:10.0.0.1",
]
NEVER = [
    "169.254.169.254",  # metadata of most clouds
    "169.254.0.1",
    "169.254.170.2",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",  # the same through NAT64
    "64:ff9b:1::a9fe:a9fe",  # through a NAT64 of one's own
    "64:ff9b:1:a9fe:a9:fe00::",  # the same, in the form of a /48
    "64:ff9b:1:a9:fe:a9fe::",  # and of a /56
    "64:ff9b:1::a9:fea9:fe00:0",  # and of a /64
    "::ffff:0:169.254.169.254",  # through SIIT
    "fd12::5efe:a9fe:a9fe",  # through ISATAP
    "fd12::200:5efe:a9fe:a9fe",
    "2002:a9fe:a9fe::1",  # through 6to4
    "::a9fe:a9fe",  # in the long abandoned compatible form
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "::ffff:100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "::ffff:0.0.0.0",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "localhost",
    "127.1",
    "",
]


@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_needs_no_leave(address: str) -> None:
    assert Target.parse("http://app/").trouble_with(address) is None


@pytest.mark.parametrize("address", ELSEWHERE)
def test_other_addresses_need_a_network(address: str) -> None:
    trouble = Target.parse("http://app/").trouble_with(address)
    assert trouble is not None
    assert "checks.url_networks" in trouble
    assert Target.parse("http://app/", ["0.0.0.0/0", "::/0"]).trouble_with(address) is None


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_called(address: str) -> None:
    for networks in ([], ["0.0.0.0/0", "::/0"]):
        assert Target.parse("http://app/", networks).trouble_with(address) is not None


def test_a_network_allows_what_is_in_it_and_nothing_beside() -> None:
    target = Target.parse("http://app/", ["10.1.0.0/16", "fd00:1::/32"])
    assert target.trouble_with("10.1.255.255") is None
    assert target.trouble_with("fd00:1::2") is None
    assert target.trouble_with("10.2.0.0") is not None
    assert target.trouble_with("fd00:2::1") is not None
    assert target.trouble_with("::ffff:10.1.2.3") is None


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1/8", "10.0.0.0/33", "ten", "169.254.0.0/16", "fe80::/10", "ff00::/8"]
)
def test_a_network_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"checks\.url_networks.*\.$"):
        Target.parse("http://app/", [text])


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[fe80::1]", "0.0.0.0"])
def test_an_address_that_may_not_be_called_is_refused_at_the_start(host: str) -> None:
    with pytest.raises(ConfigurationError, match="leads to"):
        Target.parse(f"http://{host}/")
