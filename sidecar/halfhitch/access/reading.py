"""The file of identities: TOML in, identities out, or one sentence with line, identity and remedy.

    [identities.shop]
    roles = ["produce", "check"]
    groups = ["shop", "shop-*"]
    topics = ["orders", "points.*"]
    tokens = ["sha256:..."]          # two while one is replaced
    access_keys = ["shop-key"]       # names of rocketmq.access_keys
    certificates = ["DNS:shop.svc"]  # names in client certificates
    requests_s_max = 500             # if not limits.requests_s_identity_max

Strict: a key that is not known, a role without what it needs, a hash that two identities have, all
are refused. A right that was meant and misspelled must not become none, nor all. No error repeats a
token: somebody may have pasted one where its hash belongs.
"""

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NoReturn

from halfhitch.access.identities import HASH_PREFIX, Identity
from halfhitch.access.register import SHARED_TOKENS
from halfhitch.access.rights import Right
from halfhitch.errors import ConfigurationError

_LISTS: Final = ("roles", "groups", "topics", "tokens", "access_keys", "certificates")
_REQUESTS: Final = "requests_s_max"
_KEYS: Final = (*_LISTS, _REQUESTS)
_CERTIFICATE: Final = re.compile(r"(CN|DNS|URI|IP|EMAIL):.+")
_PROOFS: Final = ("tokens", "access_keys", "certificates")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_HASH: Final = re.compile(HASH_PREFIX + r"([0-9a-f]{64})")
_HEADER: Final = re.compile(r"\s*\[")
_TABLE: Final = "identities"
#: Of one identity: more proofs at once than any rotation needs, more patterns than people read.
_LIST_COUNT_MAX: Final = 100
_REQUESTS_MAX: Final = 1_000_000
_BY_GROUP: Final = frozenset({Right.PRODUCE, Right.CHECK, Right.OBSERVE, Right.OPERATE})


def read_identities(
    text: str,
    where: str,
    *,
    access_keys: Collection[str] | None = None,
    shared_hashes: Collection[bytes] = (),
) -> tuple[Identity, ...]:
    """`where`: what the text is called in errors. `access_keys`: those there are; None: any.
    `shared_hashes`: those of auth.tokens, which no identity may have.

    Raises ConfigurationError.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where} is not TOML: {error}.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists
        raise ConfigurationError(
            f"{where} cannot be read: it has a number that is too long or tables and lists too "
            "deep in each other; there are neither in a file of identities."
        ) from None
    for key in tree:
        if key != _TABLE:
            raise ConfigurationError(
                f"{where}, line {_line_of(text, re.escape(key))}: there is no {key[:60]!r} here; "
                f"everything stands in tables [{_TABLE}.NAME]."
            )
    tables = tree.get(_TABLE)
    if not isinstance(tables, Mapping) or not tables:
        raise ConfigurationError(
            f"{where} has no identity: write a table [{_TABLE}.NAME] for each, or leave "
            "auth.identities_file away."
        )
    reader = _Reader(text, where)
    found = tuple(reader.identity(name, table) for name, table in tables.items())
    reader.refuse_twins(found)
    reader.refuse_shared(found, shared_hashes)
    if access_keys is not None:
        reader.refuse_strange_keys(found, access_keys)
    return found


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where

    def identity(self, name: str, table: object) -> Identity:
        if not _NAME.fullmatch(name) or name == SHARED_TOKENS:
            self._refuse(
                name,
                None,
                "cannot be called so: a name has 1 to 63 letters, digits and . _ @ -, begins with "
                f"a letter or digit, and is not {SHARED_TOKENS}",
            )
        if not isinstance(table, Mapping):
            self._refuse(name, None, f"must be a table: write [{_TABLE}.{name}] above its keys")
        for key in table:
            if key not in _KEYS:
                near = difflib.get_close_matches(key, _KEYS, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KEYS)}"
                self._refuse(name, key, f"has the unknown key {key[:60]!r}: {hint}")
        lists = {key: self._texts(name, table, key) for key in _LISTS}
        rights = self._rights(name, lists["roles"])
        self._check_reach(name, rights, lists)
        for given in lists["certificates"]:
            if not _CERTIFICATE.fullmatch(given):
                self._refuse(
                    name,
                    "certificates",
                    f"has the certificate name {given[:60]!r} without its kind: write CN:, DNS:, "
                    "URI:, IP: or EMAIL: before it, such as DNS:orders.shop.svc",
                )
        if not any(lists[key] for key in _PROOFS):
            self._refuse(
                name,
                None,
                'cannot prove itself: add tokens = ["sha256:..."] (`halfhitch token` prints a '
                'token and its hash), access_keys = ["..."] for the RocketMQ door, or '
                'certificates = ["DNS:..."]',
            )
        return Identity(
            name=name,
            rights=rights,
            groups=lists["groups"],
            topics=lists["topics"],
            token_hashes=tuple(self._digest(name, given) for given in lists["tokens"]),
            access_keys=lists["access_keys"],
            certificates=lists["certificates"],
            requests_s_max=self._requests(name, table.get(_REQUESTS, 0)),
        )

    def _requests(self, name: str, given: object) -> int:
        if type(given) is not int or not 0 <= given <= _REQUESTS_MAX:  # True is an int too
            self._refuse(
                name,
                _REQUESTS,
                f"must have {_REQUESTS} as a whole number of requests in a second, at most "
                f"{_REQUESTS_MAX}, or 0 for that of limits.requests_s_identity_max",
            )
        return given

    def _texts(self, name: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        given = table.get(key, [])
        if not isinstance(given, list) or not all(
            isinstance(text, str) and text and text == text.strip() and text.isprintable()
            for text in given
        ):
            self._refuse(name, key, f'must have {key} as a list of texts: {key} = ["...", "..."]')
        if key in table and not given:
            self._refuse(name, key, f"has an empty list of {key}: fill it, or leave it away")
        if len(given) > _LIST_COUNT_MAX:
            self._refuse(name, key, f"has {len(given)} {key}: at most {_LIST_COUNT_MAX} are taken")
        if len(set(given)) != len(given):
            self._refuse(name, key, f"has something twice among its {key}: leave one away")
        return tuple(given)

    def _rights(self, name: str, roles: Sequence[str]) -> frozenset[Right]:
        known = [right.value for right in Right]
        for role in roles:
            if role not in known:
                near = difflib.get_close_matches(role, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self._refuse(name, "roles", f"has the unknown role {role[:60]!r}: {hint}")
        if not roles:
            self._refuse(name, None, f"has no roles: add some of {', '.join(known)}")
        rights = frozenset(Right(role) for role in roles)
        if Right.ADMIN in rights and len(rights) > 1:
            self._refuse(name, "roles", "has admin and other roles: admin has all rights already")
        return rights

    def _check_reach(
        self, name: str, rights: frozenset[Right], lists: Mapping[str, Sequence[str]]
    ) -> None:
        """Patterns stand where they mean something, and only there."""
        if Right.ADMIN in rights:
            for key in ("groups", "topics"):
                if lists[key]:
                    self._refuse(
                        name,
                        key,
                        f"has {key}, but admin is for all groups and topics: leave {key} away, or "
                        "give it other roles",
                    )
            return
        if rights & _BY_GROUP and not lists["groups"]:
            self._refuse(name, None, 'names no producer groups: add groups = ["shop", "shop-*"]')
        if Right.PRODUCE in rights and not lists["topics"]:
            self._refuse(name, None, 'may produce, but to no topic: add topics = ["orders"]')
        if Right.PRODUCE not in rights and lists["topics"]:
            self._refuse(
                name, "topics", "names topics without the role produce: add it, or leave them away"
            )

    def _digest(self, name: str, given: str) -> bytes:
        match = _HASH.fullmatch(given)
        if match is None:
            self._refuse(
                name,
                "tokens",
                f"has a token that is not {HASH_PREFIX} and 64 digits from 0 to f: put the hash "
                "here that `halfhitch token` prints, and give the token to the application alone",
            )
        return bytes.fromhex(match[1])

    def refuse_twins(self, found: Sequence[Identity]) -> None:
        """Two with one proof: nobody could say who it was."""
        owners: dict[object, str] = {}
        for identity in found:
            for key, proofs in (
                ("tokens", identity.token_hashes),
                ("access_keys", identity.access_keys),
                ("certificates", identity.certificates),
            ):
                for proof in proofs:
                    other = owners.setdefault((key, proof), identity.name)
                    if other != identity.name:
                        self._refuse(
                            identity.name,
                            key,
                            f"has one of its {key} in common with identity {other!r}: make another "
                            "one, so that it is known who asks",
                        )

    def refuse_shared(self, found: Sequence[Identity], shared: Collection[bytes]) -> None:
        """Taken out of the file, such a token would not be worth nothing, but everything."""
        for identity in found:
            if not set(shared).isdisjoint(identity.token_hashes):
                self._refuse(
                    identity.name,
                    "tokens",
                    f"has a token that is one of {SHARED_TOKENS} too, which may do everything: "
                    "give it another one (`halfhitch token` prints one), or take that one out of "
                    f"{SHARED_TOKENS}",
                )

    def refuse_strange_keys(self, found: Sequence[Identity], known: Collection[str]) -> None:
        """Whose key has no secret could never prove himself, and would look for the fault long."""
        for identity in found:
            for key in identity.access_keys:
                if key not in known:
                    self._refuse(
                        identity.name,
                        "access_keys",
                        f"names the access key {key[:60]!r}, which has no secret: add the pair "
                        f"{key[:60]}:secret to rocketmq.access_key_file, or take it out here",
                    )

    def _refuse(self, name: str, key: str | None, what: str) -> NoReturn:
        line = _line_of_identity(self._text, name, key)
        raise ConfigurationError(f"{self._where}, line {line}: identity {name[:63]!r} {what}.")


def _line_of(text: str, pattern: str) -> int:
    """Of the first line that mentions it as a key or a table; 1 where it is written otherwise."""
    expression = re.compile(rf"""\s*\[*\s*["']?{pattern}["']?\s*[=.\]]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if expression.match(line)), 1)


def _line_of_identity(text: str, name: str, key: str | None) -> int:
    """Where its table begins, or where the key stands in it."""
    begin = _line_of(text, rf"""{_TABLE}["']?\s*\.\s*["']?{re.escape(name)}""")
    if key is None:
        return begin
    expression = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
    for number, line in enumerate(text.splitlines()[begin:], begin + 1):
        if _HEADER.match(line):
            break
        if expression.match(line):
            return number
    return begin
