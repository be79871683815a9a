"""Who may ask: requests signed with a secret that belongs to an access key (RocketMQ's ACL).

With identities the access key says who it is, and what he may do is asked where a group or a topic
is named. An access key that no identity has lets nobody in then.
"""

import logging
from collections.abc import Mapping

from halfhitch.access import ACCESS_KEY, EVERYBODY, Access, Caller, Grant, Right
from halfhitch.doors.rocketmq.errors import NoPermission
from halfhitch.errors import HalfHitchError
from halfhitch.observability.lines import LineBudget
from halfhitch.wire.remoting.requests import Frame
from halfhitch.wire.remoting.signature import access_key, verify

logger = logging.getLogger(__name__)


class AccessControl:
    """With keys, every request must be signed with one of them; without, none is looked at.

    `replace` puts other keys in the place of those before.
    """

    def __init__(self, secrets: Mapping[str, str], access: Access | None = None) -> None:
        self._access = access or Access()
        self.replace(secrets)
        self._lines = LineBudget()
        self.is_on = bool(secrets) or self._access.has_identities

    def replace(self, secrets: Mapping[str, str]) -> None:
        """These keys count from now on, and no others."""
        self._secrets = dict(secrets)
        #: Without identities: who has a key may do everything, as long as it counts.
        self._nameless = {
            key: Caller(None, (Right.ADMIN,), proof=(ACCESS_KEY, key.encode())) for key in secrets
        }

    def check(self, frame: Frame) -> Caller:
        """Whose request it is; its proof is the access key. Raises NoPermission, RemotingError."""
        try:
            return self._caller(frame)
        except HalfHitchError as error:
            self._access.unauthorized("rocketmq")
            more = self._lines.take()
            if more is not None:
                logger.warning(
                    "a request of a RocketMQ client was refused: %s%s",
                    error,
                    more,
                    extra={"action": "rocketmq_unauthorized"},
                )
            raise

    def _caller(self, frame: Frame) -> Caller:
        key = access_key(frame)
        if key is None:
            raise NoPermission(
                "this door asks for a signature: give the producer an AclClientRPCHook with access "
                "key and secret key"
            )
        secret = self._secrets.get(key)
        if secret is None:
            raise NoPermission(f"the access key {key[:60]!r} is not known here")
        verify(frame, secret)
        caller = self._access.by_access_key(key)
        if caller is None:
            raise NoPermission(
                f"the access key {key[:60]!r} belongs to no identity: whoever keeps the file of "
                "auth.identities_file can add it to the access_keys of one"
            )
        return caller if self._access.has_identities else self._nameless[key]

    def grant(self, caller: Caller, group: str) -> Grant:
        """To be asked what became of this group's transactions."""
        if caller.proof[0] != ACCESS_KEY:
            return Grant(self._access, caller, Right.CHECK, group)
        return _KeyGrant(self, caller, group)

    def secret_of(self, key: str) -> str | None:
        """None: the key counts not, or no more."""
        return self._secrets.get(key)

    def known_grant(self, caller: Caller, group: str) -> Grant:
        """By the identities alone, whatever has become of its key."""
        known = caller if self._access.has_identities else EVERYBODY
        return Grant(self._access, known, Right.CHECK, group)


class _KeyGrant(Grant):
    """One that was shown with an access key: it ends with the key, or with its secret."""

    __slots__ = ("_control", "_key", "_known", "_secret")

    def __init__(self, control: AccessControl, caller: Caller, group: str) -> None:
        self._control = control
        self._known = control.known_grant(caller, group)
        self._key = caller.proof[1].decode()
        self._secret = control.secret_of(self._key)

    @property
    def name(self) -> str | None:
        """See Grant."""
        return self._known.name

    def holds(self) -> bool:
        """See Grant."""
        return self._control.secret_of(self._key) == self._secret and self._known.holds()
