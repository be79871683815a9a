"""Who may ask: requests signed with a secret that belongs to an access key (RocketMQ's ACL).

With identities the access key says who it is, and what he may do is asked where a group or a topic
is named. An access key that no identity has lets nobody in then.
"""

import logging
from collections.abc import Mapping

from halfhitch.access import EVERYBODY, Access, Caller, Grant, Right
from halfhitch.doors.rocketmq.errors import NoPermission
from halfhitch.errors import HalfHitchError
from halfhitch.observability.lines import LineBudget
from halfhitch.wire.remoting.requests import Frame
from halfhitch.wire.remoting.signature import access_key, verify

logger = logging.getLogger(__name__)


class AccessControl:
    """With keys, every request must be signed with one of them; without, none is looked at."""

    def __init__(self, secrets: Mapping[str, str], access: Access | None = None) -> None:
        self._secrets = dict(secrets)
        self._access = access or Access()
        self._lines = LineBudget()
        self.is_on = bool(secrets) or self._access.has_identities

    def check(self, frame: Frame) -> Caller:
        """Whose request it is. Raises NoPermission, RemotingError."""
        try:
            return self._caller(frame) if self.is_on else EVERYBODY
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
        return caller

    def grant(self, caller: Caller, group: str) -> Grant:
        """To be asked what became of this group's transactions."""
        return Grant(self._access, caller, Right.CHECK, group)
