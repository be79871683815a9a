"""The file of identities, from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.access import token_hash
from halfhitch.config.identities import read_identities_file
from halfhitch.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_read_and_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "identities.toml"
    path.write_text(f'[identities.ops]\nroles = ["admin"]\ntokens = ["{token_hash("x")}"]\n')
    assert [identity.name for identity in read_identities_file(path)] == ["ops"]
    path.write_text("[identities.ops]\nroles = 3\n")
    with pytest.raises(ConfigurationError, match=r"identities\.toml', line 2: identity 'ops'"):
        read_identities_file(path)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "identities.toml"
    with pytest.raises(ConfigurationError, match=r"auth\.identities_file.*No such file"):
        read_identities_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_identities_file(path)
    path.write_bytes(b"#" * (4 * 1_048_576 + 1))
    with pytest.raises(ConfigurationError, match="larger than"):
        read_identities_file(path)
