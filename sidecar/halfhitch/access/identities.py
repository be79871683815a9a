"""An identity: a name, how it proves itself, and what it may do with which groups and topics.

Nothing of it is secret: tokens are kept as hashes, and the secrets of access keys stand elsewhere.
One SHA-256 is enough for a token, without salt or stretching: those slow down who guesses from a
list of likely passwords, and a token of 256 random bits is on no list. One that a person has
thought of would need them.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from halfhitch.access.rights import Right

HASH_PREFIX: Final = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """As the file has it. Patterns are those of topics.allow: `*`, `?` and `[...]`."""

    name: str
    rights: frozenset[Right]
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    token_hashes: tuple[bytes, ...] = ()
    access_keys: tuple[str, ...] = ()
    #: Names in client certificates, each with its kind: `CN:orders`, `DNS:...`, `URI:...`.
    certificates: tuple[str, ...] = ()
    #: How many requests it may make in a second; 0: as many as the setting says for all.
    requests_s_max: int = 0


def token_digest(token: bytes) -> bytes:
    """What is kept of a token."""
    return sha256(token).digest()


def token_hash(token: str) -> str:
    """The same as it stands in the file."""
    return HASH_PREFIX + token_digest(token.encode()).hex()
