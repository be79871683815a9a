"""ACL: a request signed with a secret that client and server share.

The signature is HMAC-SHA1 over the values of all fields in the order of their names, without the
signature itself, and the body. Which keys there are, and what they may do, is the door's.
"""

import hmac
from base64 import b64encode
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import optional_text
from halfhitch.wire.remoting.requests import Frame

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
#: Clients up to 4.9.3 leave this field out of what they sign.
_UNSIGNED: Final = "_UNIQUE_KEY_QUERY"


def access_key(frame: Frame) -> str | None:
    """Who claims to have signed this."""
    return optional_text(frame.fields, ACCESS_KEY)


def sign(fields: dict[str, str], body: bytes, secret_key: str, *, skipped: str = "") -> str:
    """The signature that belongs to these fields and this body."""
    names = sorted(name for name in fields if name not in (SIGNATURE, skipped))
    # Java sorts by UTF-16 units; for the names there are, that is the same.
    content = "".join([fields[name] for name in names]).encode() + body
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()


def verify(frame: Frame, secret_key: str) -> None:
    """RemotingError unless the frame was signed with that key."""
    fields = frame.fields
    given = fields.get(SIGNATURE, "").encode()
    right = sign(fields, frame.body, secret_key).encode()
    matches = hmac.compare_digest(given, right)
    if _UNSIGNED in fields:
        older = sign(fields, frame.body, secret_key, skipped=_UNSIGNED).encode()
        matches |= hmac.compare_digest(given, older)
    if not matches:
        raise RemotingError(
            codes.NO_PERMISSION,
            "the signature is wrong: do the client and this server have the same secret key?",
        )
