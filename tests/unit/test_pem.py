"""Each thing that is wrong with a file of ours is told with the file and with what helps.

Tried with files that openssl has made, at a door and at a client.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from halfhitch.client import ClientTls
from halfhitch.client.address import parse_address
from halfhitch.doors.tls import ServerTls
from halfhitch.errors import ConfigurationError
from halfhitch.pem import trouble_of
from harness.certificates import LONG_AGO, Authority, Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65_534


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def good(authority: Authority) -> Pair:
    return authority.issue("good")


@pytest.fixture
def bad(authority: Authority, good: Pair, tmp_path: Path) -> dict[str, Pair]:
    """By what is wrong with it."""
    locked = tmp_path / "locked.key"
    asked = ("ec", "-in", str(good.key), "-aes256", "-passout", "pass:x", "-out", str(locked))
    subprocess.run(["openssl", *asked], check=True, capture_output=True)
    empty, cut = tmp_path / "empty.pem", tmp_path / "cut.pem"
    empty.touch()
    cut.write_bytes(good.certificate.read_bytes()[:200])
    return {
        "expired": authority.issue("old", valid=LONG_AGO),
        "early": authority.issue("early", valid=("20900101000000Z", "20910101000000Z")),
        "for clients": authority.issue("for-clients", use="client"),
        "other key": Pair(good.certificate, authority.issue("other").key),
        "locked": Pair(good.certificate, locked),
        "no key": Pair(good.certificate, tmp_path / "missing.key"),
        "no certificate": Pair(tmp_path / "missing.pem", good.key),
        "empty": Pair(empty, good.key),
        "cut": Pair(cut, good.key),
        "swapped": Pair(good.key, good.certificate),
        "a folder": Pair(tmp_path, good.key),
    }


#: What is wrong, the file that is named, what is said, and what helps.
TOLD = [
    ("other key", "other.key", "key values mismatch", "key that it was made with"),
    ("locked", "locked.key", "encrypted", "openssl pkey -in"),
    ("no key", "missing.key", "no such file", ""),
    ("no certificate", "missing.pem", "no such file", ""),
    ("empty", "empty.pem", "not PEM", "PEM."),
    ("cut", "cut.pem", "not PEM", "PEM."),
    ("swapped", "good.key", "not PEM", "PEM."),
    ("a folder", "", "is a directory", ""),
]
#: A client's own are judged by the door.
TOLD_AT_THE_DOOR = [
    ("expired", "old.pem", "has expired", "put a new one"),
    ("early", "early.pem", "not yet valid", "wait until it is"),
    ("for clients", "for-clients.pem", "purpose", "serverAuth"),
]


@pytest.mark.parametrize(("what", "named", "said", "cure"), [*TOLD, *TOLD_AT_THE_DOOR])
def test_a_door_names_the_file_and_the_cure(
    bad: dict[str, Pair], what: str, named: str, said: str, cure: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ServerTls(bad[what].files("admin"), lambda: 0)
    for words in ("admin.tls_", named, said, cure):
        assert words in caught.value.message
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize(("what", "named", "said", "cure"), TOLD)
def test_a_client_names_the_file_and_the_cure(
    bad: dict[str, Pair], what: str, named: str, said: str, cure: str
) -> None:
    pair = bad[what]
    with pytest.raises(ConfigurationError) as caught:
        parse_address("https://127.0.0.1:1", ClientTls(None, pair.certificate, pair.key))
    for words in ("HALFHITCH_CLIENT_", named, said, cure):
        assert words in caught.value.message
    assert caught.value.message.endswith(".")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """That others may enter. pytest's own may not, as each pytest that begins sees to anew."""
    with tempfile.TemporaryDirectory(prefix="halfhitch-rights-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("which", ["certificate", "key"])
def test_a_file_that_may_not_be_read_is_named_with_what_helps(
    good: Pair, open_folder: Path, which: str
) -> None:
    pair = Pair(open_folder / "mine.pem", open_folder / "mine.key")
    pair.replace(good)
    for path in (pair.certificate, pair.key):
        path.chmod(0o644)
    unread = getattr(pair, which)
    unread.chmod(0)
    told = []
    with as_nobody():
        for use in (
            lambda: ServerTls(pair.files(), lambda: 0),
            lambda: parse_address("https://127.0.0.1:1", ClientTls(None, *pair.paths)),
        ):
            with pytest.raises(ConfigurationError) as caught:
                use()
            told.append(caught.value.message)
    for message in told:
        assert str(unread) in message
        assert "permission denied" in message
        assert "chown, chmod" in message


def test_what_is_not_known_is_told_as_it_is() -> None:
    assert trouble_of(OSError("Odd"), "x.pem") == ("odd", None)
