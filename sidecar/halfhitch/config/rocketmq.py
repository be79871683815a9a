"""What some texts of the RocketMQ door's settings mean."""

import re
from collections.abc import Sequence

from halfhitch.config.secret import Secret
from halfhitch.errors import ConfigurationError

_SECRET_BYTES_MIN = 8  # RocketMQ's own lower bound is 6 characters
_ADVERTISED = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_PORT_MAX = 65_535


def access_secrets(pairs: Sequence[Secret]) -> dict[str, str]:
    """Access keys to their secrets. Raises ConfigurationError, which repeats no secret."""
    secrets: dict[str, str] = {}
    for pair in pairs:
        key, _, secret = pair.reveal().partition(":")
        if not key or len(secret.encode()) < _SECRET_BYTES_MIN:
            raise ConfigurationError(
                "rocketmq.access_keys has a value that is not access:secret with at least "
                f"{_SECRET_BYTES_MIN} bytes of secret: write for example "
                "shop:$(halfhitch keygen)."
            )
        secrets[key] = secret
    return secrets


def advertised_address(text: str | None) -> tuple[str, int | None] | None:
    """Host, and port if it is named. Raises ConfigurationError."""
    if text is None:
        return None
    match = _ADVERTISED.fullmatch(text)
    if match is None or int(match[2] or 1) not in range(1, _PORT_MAX + 1):
        raise ConfigurationError(
            f"rocketmq.advertised is {text!r}, which is not host or host:port: write for example "
            "halfhitch.shop.svc:9876."
        )
    return match[1].strip("[]"), int(match[2]) if match[2] else None
