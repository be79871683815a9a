"""The file that auth.identities_file names, from the disk, and what it must fit to."""

from collections.abc import Collection
from pathlib import Path

from halfhitch.access.identities import Identity, token_digest
from halfhitch.access.reading import read_identities
from halfhitch.config.rocketmq import access_secrets
from halfhitch.config.settings import Settings
from halfhitch.errors import ConfigurationError

_FILE_BYTES_MAX = 4 * 1_048_576


def read_identities_file(
    path: Path,
    access_keys: Collection[str] | None = None,
    shared_hashes: Collection[bytes] = (),
) -> tuple[Identity, ...]:
    """`access_keys`: those there are; None where there is no RocketMQ door. `shared_hashes`: those
    of auth.tokens.

    Raises ConfigurationError, which names the file.
    """
    where = f"auth.identities_file {str(path)!r}"
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise ConfigurationError(f"{where} is larger than {_FILE_BYTES_MAX} bytes.")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigurationError(f"{where} cannot be read: {reason}.") from None
    return read_identities(text, where, access_keys=access_keys, shared_hashes=shared_hashes)


def shared_token_hashes(settings: Settings) -> Collection[bytes]:
    """Of auth.tokens, which no identity may have."""
    return frozenset(token_digest(token.reveal().encode()) for token in settings.auth.tokens)


def known_access_keys(settings: Settings) -> Collection[str] | None:
    """What identities may name; None where there is no RocketMQ door, so that it matters not."""
    rocketmq = settings.rocketmq
    return access_secrets(rocketmq.access_keys).keys() if rocketmq.enabled else None
