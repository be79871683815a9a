"""Who may ask: requests signed with a secret that belongs to an access key (RocketMQ's ACL)."""

from collections.abc import Mapping

from halfhitch.doors.rocketmq.errors import NoPermission
from halfhitch.wire.remoting.requests import Frame
from halfhitch.wire.remoting.signature import access_key, verify


class AccessControl:
    """With keys, every request must be signed with one of them; without, none is looked at."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)
        self.is_on = bool(secrets)

    def check(self, frame: Frame) -> None:
        """Raises NoPermission, RemotingError."""
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
