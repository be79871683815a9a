import pytest

from halfhitch.client.address import Address, find_address, parse_address, require_secrecy
from halfhitch.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:8340", ("127.0.0.1", 8340, None, "127.0.0.1:8340")),
        ("http://127.0.0.1:8340/", ("127.0.0.1", 8340, None, "127.0.0.1:8340")),
        ("http://coordinator.orders:80", ("coordinator.orders", 80, None, "coordinator.orders:80")),
        ("http://[::1]:8340", ("::1", 8340, None, "[::1]:8340")),
        ("unix:/run/hh.sock", ("", 0, "/run/hh.sock", "localhost")),
        ("unix:///run/hh.sock", ("", 0, "/run/hh.sock", "localhost")),
        ("unix:hh.sock", ("", 0, "hh.sock", "localhost")),
    ],
)
def test_both_forms_are_understood(text, expected):
    assert parse_address(text) == Address(text, *expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8340",
        "http://127.0.0.1",
        "http://127.0.0.1:",
        "http://127.0.0.1:http",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:²",
        "http://:8340",
        "http://[]:8340",
        "http://::1:8340",
        "http://user@host:8340",
        "http://host/path:8340",
        "http://ho st:8340",
        "http://ho\r\nst:8340",
        "http://höst:8340",
        "unix:",
        "unix:/a\0b",
    ],
)
def test_anything_else_is_refused_with_a_good_example(text):
    with pytest.raises(ConfigurationError, match=r"http://127\.0\.0\.1:8340"):
        parse_address(text)


def test_the_argument_counts_before_the_environment_before_the_default(monkeypatch):
    assert find_address(None).text == "http://127.0.0.1:8340"
    monkeypatch.setenv("HALFHITCH_ADDRESS", "unix:/run/e.sock")
    assert find_address(None).path == "/run/e.sock"
    assert find_address("http://h:1").host == "h"
    monkeypatch.setenv("HALFHITCH_ADDRESS", "")
    assert find_address(None).text == "http://127.0.0.1:8340"


@pytest.mark.parametrize(
    "text",
    ["http://10.0.0.1:1", "http://[::2]:1", "http://localhost.example:1", "http://0.0.0.0:1"],
)
def test_a_token_may_not_be_read_on_its_way(text):
    far = parse_address(text)
    with pytest.raises(ConfigurationError, match="https://"):
        require_secrecy(far, "t", encrypted_in_front=None)
    require_secrecy(far, "t", encrypted_in_front=True)
    require_secrecy(far, None, encrypted_in_front=None)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:1",
        "http://127.1.2.3:1",
        "http://[::1]:1",
        "http://[::ffff:127.0.0.1]:1",
        "http://LocalHost:1",
        "https://10.0.0.1:1",
        "unix:/run/x",
    ],
)
def test_what_nobody_else_reads_needs_no_word(text):
    require_secrecy(parse_address(text), "t", encrypted_in_front=None)


def test_the_environment_says_that_something_in_front_encrypts(monkeypatch):
    far = parse_address("http://h:1")
    monkeypatch.setenv("HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT", " TRUE ")
    require_secrecy(far, "t", encrypted_in_front=None)
    for text in ("", "false"):
        monkeypatch.setenv("HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT", text)
        with pytest.raises(ConfigurationError, match="https://"):
            require_secrecy(far, "t", encrypted_in_front=None)
    monkeypatch.setenv("HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT", "yes please")
    with pytest.raises(ConfigurationError, match="true or false, not 'yes please'"):
        require_secrecy(far, "t", encrypted_in_front=None)
