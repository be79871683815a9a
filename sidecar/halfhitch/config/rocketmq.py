"""Settings of the RocketMQ door, and what some of their texts mean."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from halfhitch.config.group import Group, Text
from halfhitch.config.secret import Secret
from halfhitch.errors import ConfigurationError

_SECRET_BYTES_MIN = 8  # RocketMQ's own lower bound is 6 characters
_ADVERTISED = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_PORT_MAX = 65_535


class RocketmqSettings(Group, frozen=True, kw_only=True):
    """RocketMQ door"""

    enabled: Annotated[
        bool,
        Meta(description="Whether RocketMQ producers are served; this is their name server too."),
    ] = False
    host: Annotated[
        Text,
        Meta(description="Address the RocketMQ door binds; beyond loopback it needs access keys."),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(ge=0, le=65_535, description="Port of the RocketMQ door; 0 takes any free port."),
    ] = 9876
    advertised: Annotated[
        str | None,
        Meta(
            description="Address, host or host:port, that clients are told to connect to, when it "
            "is not the one they have dialled."
        ),
    ] = None
    broker_name: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,100}$",
            description="Name of the broker in routes; the same on all instances.",
        ),
    ] = "halfhitch"
    connections_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Open connections; further ones are closed.")
    ] = 1_024
    in_flight_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests under way; beyond it messages get code 2."),
    ] = 10_000
    access_keys: Annotated[
        tuple[Secret, ...],
        Meta(description="ACL: pairs access:secret; each request must be signed with one of them."),
    ] = ()
    access_key_file: Annotated[
        Path | None,
        Meta(description="File with such pairs, one a line; instead of rocketmq.access_keys."),
    ] = None
    tls_cert: Annotated[
        Path | None,
        Meta(description="PEM certificate chain; TLS and plain clients then share the port."),
    ] = None
    tls_key: Annotated[
        Path | None, Meta(description="PEM key of that certificate, if it is in a file of its own.")
    ] = None
    tls_required: Annotated[
        bool, Meta(description="Whether clients that do not speak TLS are turned away.")
    ] = False
    create_topics: Annotated[
        bool, Meta(description="Whether topics that producers ask for are created in Kafka.")
    ] = False
    create_partitions: Annotated[
        int, Meta(ge=1, le=1_000, description="Partitions of topics that are created so.")
    ] = 4


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
