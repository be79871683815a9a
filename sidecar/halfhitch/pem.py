"""What is wrong with a certificate or key in a file, and what helps: the same words everywhere."""

import os
import ssl
from typing import Final, NamedTuple

Path = str | os.PathLike[str]

_NOT_PEM: Final = "it is not PEM, or a part of it is missing"
#: OpenSSL's codes of what is wrong with a certificate that was verified.
NOT_YET_VALID: Final = 9
HAS_EXPIRED: Final = 10
WRONG_PURPOSE: Final = 26

_CURES: Final = {
    HAS_EXPIRED: "put a new one in its place, or set this machine's clock right",
    NOT_YET_VALID: "wait until it is, or set this machine's clock right",
    WRONG_PURPOSE: "ask for one for servers (extendedKeyUsage serverAuth)",
}


class Encrypted(Exception):
    """OpenSSL asks for a password, which without this it would do on the terminal."""


def no_password() -> str:
    """To be given to OpenSSL as the password."""
    raise Encrypted


class Trouble(NamedTuple):
    """In words, lower case, without a full stop."""

    what: str
    cure: str | None = None


def trouble_of(error: BaseException, path: Path, key: Path | None = None) -> Trouble:
    """With the certificate in `path`, or its key, which may lie there too."""
    if isinstance(error, Encrypted):
        locked = str(key or path)
        how = f"openssl pkey -in {locked} -out {locked}.plain"
        return Trouble("its key is encrypted, and nobody is there to type", f"decrypt it ({how})")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Trouble(error.verify_message, _CURES.get(error.verify_code))
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return Trouble("key values mismatch", "give the key that it was made with, unencrypted")
        if "PEM lib" in str(error) or error.reason in (
            "NO_START_LINE",
            "NO_CERTIFICATE_OR_CRL_FOUND",
        ):
            return Trouble(_NOT_PEM)
        if error.reason:
            return Trouble(error.reason.lower().replace("_", " "))
    if isinstance(error, PermissionError):
        return Trouble("permission denied", "let the user that runs this read it (chown, chmod)")
    return Trouble(str(getattr(error, "strerror", None) or error).lower())


def unreadable(path: Path) -> OSError | None:
    """Why it cannot be read: of two files OpenSSL does not say which one it is."""
    try:
        with open(path, "rb") as opened:  # noqa: PTH123 - a text is allowed
            opened.read(1)
    except OSError as error:
        return error
    return None
