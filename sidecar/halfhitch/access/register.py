"""Who is known now: from a token, an access key or a certificate to the caller.

Owns `Access`, one for a process and shared by its doors. `replace` puts other identities in the
place of those before. What outlives a request (a check stream, a registered producer) has a
`Grant`, and ends when that does not hold any more.

The tokens of auth.tokens are one identity more, which may do everything. A token is looked up by
its hash, so the time that takes tells nothing about the tokens there are.
"""

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from halfhitch.access.allowance import Allowance
from halfhitch.access.identities import Identity, token_digest
from halfhitch.access.rights import EVERYBODY, Caller, Right

#: The name under which whoever shows one of auth.tokens acts, beside identities.
SHARED_TOKENS: Final = "auth.tokens"
_TOKEN: Final = "token"  # noqa: S105 - a kind of proof
ACCESS_KEY: Final = "access key"
_CERTIFICATE: Final = "certificate"
#: Groups whose team is remembered, and then forgotten all at once; there are as many as have
#: undecided transactions.
_TEAMS_REMEMBERED_MAX: Final = 1 << 16
#: Instances tell each other of a team in few bytes.
_TEAM_CHARACTERS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Numbers:
    """What was counted, as of one moment."""

    unauthorized: dict[str, int]  # by door
    forbidden: dict[tuple[str, str], int]  # by identity and right
    too_many: dict[str, int]  # by identity
    identity_count: int
    has_identities: bool
    is_file_broken: bool


class Access:
    """For one thread, the event loop's; `numbers` is for any."""

    def __init__(
        self,
        *,
        tokens: Sequence[bytes] = (),
        identities: Sequence[Identity] | None = None,
        requests_s_max: int = 0,
        on_forbidden: Callable[[str, Right], None] = lambda *_: None,
        on_too_many: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`identities` None: none are configured. Without tokens too, nothing is asked for.

        `requests_s_max`: of each identity that has no number of its own; 0: as many as come.
        `on_forbidden` is told which identity lacked which right, `on_too_many` which one has asked
        too much.
        """
        self._shared = tuple(token_digest(token) for token in tokens)
        self._requests_s_max = requests_s_max
        self._allowances: dict[str, Allowance] = {}
        self._on_forbidden = on_forbidden
        self._on_too_many = on_too_many
        self._callers: dict[tuple[str, bytes], Caller] = {}
        self._unauthorized: dict[str, int] = {}
        self._forbidden: dict[tuple[str, str], int] = {}
        self._too_many: dict[str, int] = {}
        self._identity_count = 0
        #: Whether callers are told apart.
        self.has_identities = identities is not None
        #: Whether a token must be shown.
        self.asks_for_tokens = bool(tokens) or self.has_identities
        #: Changes when identities change.
        self.generation = 0
        #: The file was changed to something that cannot be read: those of before still count.
        self.is_file_broken = False
        self._fill(identities or ())

    def replace(self, identities: Sequence[Identity]) -> None:
        """These are known from now on, and no others."""
        self.generation += 1
        self.is_file_broken = False
        self._fill(identities)

    def _fill(self, identities: Sequence[Identity]) -> None:
        callers: dict[tuple[str, bytes], Caller] = {}
        #: By name, those who may prepare for some groups only; for whom is remembered in `_teams`.
        self._producers = {
            identity.name: Caller(identity.name, identity.rights, groups=identity.groups)
            for identity in sorted(identities, key=lambda each: each.name)
            if Right.ADMIN not in identity.rights
        }
        self._teams: dict[str, str | None] = {}
        for digest in self._shared:
            name = SHARED_TOKENS if self.has_identities else None
            callers[_TOKEN, digest] = Caller(name, (Right.ADMIN,), proof=(_TOKEN, digest))
        before, self._allowances = self._allowances, {}
        for identity in identities:
            allowance = self._allowance(identity, before.get(identity.name))
            for proof in _proofs(identity):
                callers[proof] = Caller(
                    identity.name,
                    identity.rights,
                    groups=identity.groups,
                    topics=identity.topics,
                    proof=proof,
                    refused=partial(self._refused, identity.name),
                    allowance=allowance,
                )
        self._identity_count = len(identities)
        self._callers = callers

    def _allowance(self, identity: Identity, before: Allowance | None) -> Allowance | None:
        """What it has used is not given back by a change of the file."""
        name, requests_s = identity.name, identity.requests_s_max or self._requests_s_max
        if not requests_s:
            return None
        if before is None:
            before = Allowance(name, requests_s, partial(self._asked_too_much, name))
        else:
            before.change(requests_s)
        self._allowances[name] = before
        return before

    # -- who it is -------------------------------------------------------------------------------

    def by_token(self, token: bytes) -> Caller | None:
        """Whose token it is."""
        digest = token_digest(token)
        caller = self._callers.get((_TOKEN, digest))
        if caller is None or not hmac.compare_digest(caller.proof[1], digest):
            return None
        return caller

    def by_access_key(self, key: str) -> Caller | None:
        """Whose access key it is, once its signature was verified."""
        if not self.has_identities:
            return EVERYBODY
        return self._callers.get((ACCESS_KEY, key.encode()))

    def by_certificate(self, names: Sequence[str]) -> Caller | None:
        """Whose verified certificate has these names; nobody's if they are those of several."""
        proofs = [(_CERTIFICATE, name.encode()) for name in names]
        found = [self._callers[proof] for proof in proofs if proof in self._callers]
        return found[0] if len({caller.name for caller in found}) == 1 else None

    def team_of(self, group: str) -> str | None:
        """Whose producer group it is; those who share one are one team. None: nobody's."""
        if group not in self._teams:
            if len(self._teams) >= _TEAMS_REMEMBERED_MAX:
                self._teams.clear()
            names = [
                name for name, caller in self._producers.items() if caller.may(Right.PRODUCE, group)
            ]
            self._teams[group] = ", ".join(names)[:_TEAM_CHARACTERS_MAX] or None
        return self._teams[group]

    def renewed(self, caller: Caller) -> Caller | None:
        """The same by what is known now; None when what it was known by counts no more."""
        return caller if caller is EVERYBODY else self._callers.get(caller.proof)

    # -- what is counted -------------------------------------------------------------------------

    def unauthorized(self, door: str) -> None:
        """Somebody could not say who he is."""
        self._unauthorized[door] = self._unauthorized.get(door, 0) + 1

    def _refused(self, name: str, right: Right) -> None:
        key = (name, right.value)
        self._forbidden[key] = self._forbidden.get(key, 0) + 1
        self._on_forbidden(name, right)

    def _asked_too_much(self, name: str) -> None:
        self._too_many[name] = self._too_many.get(name, 0) + 1
        self._on_too_many(name)

    def numbers(self) -> Numbers:
        """A copy."""
        return Numbers(
            self._unauthorized.copy(),
            self._forbidden.copy(),
            self._too_many.copy(),
            self._identity_count,
            self.has_identities,
            self.is_file_broken,
        )


class Grant:
    """A right for a group that outlives the request in which it was shown."""

    __slots__ = ("_access", "_caller", "_generation", "_group", "_right")

    def __init__(self, access: Access, caller: Caller, right: Right, group: str) -> None:
        self._access = access
        self._caller = caller
        self._right = right
        self._group = group
        self._generation = -1

    @property
    def name(self) -> str | None:
        """Of the identity that has it; None where nobody is told apart."""
        return self._caller.name

    def holds(self) -> bool:
        """By the identities there are now."""
        access = self._access
        if self._generation == access.generation:
            return True
        caller = access.renewed(self._caller)
        if caller is None or not caller.may(self._right, self._group):
            return False
        self._caller, self._generation = caller, access.generation
        return True


def _proofs(identity: Identity) -> Iterable[tuple[str, bytes]]:
    for digest in identity.token_hashes:
        yield _TOKEN, digest
    for key in identity.access_keys:
        yield ACCESS_KEY, key.encode()
    for name in identity.certificates:
        yield _CERTIFICATE, name.encode()
