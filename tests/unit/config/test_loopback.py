"""The one table of what other machines cannot reach."""

import msgspec
import pytest

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


def opens_without_token(host: str) -> bool:
    try:
        HttpDoor(FakeTransactions(), host=host, port=0, access=access_with(), limits=http_limits())
    except ConfigurationError:
        return False
    return True


def passes_the_rule(host: str) -> bool:
    settings = msgspec.structs.replace(Settings(), http=HttpSettings(host=host))
    return open_doors_have_a_lock(settings) is None
