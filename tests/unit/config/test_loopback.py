"""The one table of what other machines cannot reach."""

import msgspec
import pytest

from halfhitch.client.address import parse_address, require_secrecy
from halfhitch.config import HttpSettings, Settings
from halfhitch.config.loopback import is_loopback
from halfhitch.config.rules import open_doors_have_a_lock
from halfhitch.doors.http.guard import hosts_allowed
from halfhitch.doors.http.server import HttpDoor
from halfhitch.errors import ConfigurationError
from harness.defaults import http_limits
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with

TABLE = [
    ("127.0.0.1", True),
    ("127.1.2.3", True),
    ("::1", True),
    ("[::1]", True),
    ("::ffff:127.0.0.1", True),
    ("localhost", True),
    ("LOCALHOST", True),
    ("0.0.0.0", False),
    ("::", False),
    ("[::]", False),
    ("::ffff:10.0.0.1", False),
    ("10.0.0.1", False),
    ("localhost.example", False),
    ("", False),
]


@pytest.mark.parametrize(("host", "expected"), TABLE)
def test_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(("host", "expected"), [row for row in TABLE if row[0]])
def test_the_rule_and_the_door_agree_on_what_needs_no_token(host: str, expected: bool) -> None:
    """The rule took [::1] for loopback and the door did not; of LOCALHOST it was the reverse."""
    assert opens_without_token(host) is expected
    assert passes_the_rule(host) is expected
    assert (b"localhost" in (hosts_allowed(host, []) or ())) is expected


@pytest.mark.parametrize(("host", "expected"), [row for row in TABLE if row[0].strip("[]")])
def test_the_client_agrees_on_what_other_machines_cannot_read(host: str, expected: bool) -> None:
    """It has a rule of its own, for it imports nothing of the server."""
    written = f"[{host}]" if ":" in host and host[0] != "[" else host
    address = parse_address(f"http://{written}:1")
    try:
        require_secrecy(address, "t", encrypted_in_front=False)
    except ConfigurationError:
        assert not expected
    else:
        assert expected


def opens_without_token(host: str) -> bool:
    try:
        HttpDoor(FakeTransactions(), host=host, port=0, access=access_with(), limits=http_limits())
    except ConfigurationError:
        return False
    return True


def passes_the_rule(host: str) -> bool:
    settings = msgspec.structs.replace(Settings(), http=HttpSettings(host=host))
    return open_doors_have_a_lock(settings) is None
