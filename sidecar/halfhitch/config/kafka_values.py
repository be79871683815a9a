"""Which values librdkafka takes for the options that may be set.

Owns the words and bounds, and `taken`, which refuses what its client would refuse as it is made: a
start would end there, late, and a chart or a manifest that has the value would be applied before.
A test compares the table with the client itself. Texts that only a broker or a file can judge
(names, lists of ciphers, certificates) are none of its matter.
"""

import re
from collections.abc import Mapping
from typing import Final

from halfhitch.errors import ConfigurationError

_MECHANISMS: Final = "PLAIN SCRAM-SHA-1 SCRAM-SHA-256 SCRAM-SHA-512 OAUTHBEARER GSSAPI"
_COMPRESSIONS: Final = "none gzip snappy lz4 zstd"
_TRUTHS: Final = "true false 1 0 t f"
_INT_MAX: Final = 2_147_483_647
#: In any case; of mechanisms the client itself hears capitals only.
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(words.split())
    for name, words in {
        "security.protocol": "PLAINTEXT SSL SASL_PLAINTEXT SASL_SSL",
        "sasl.mechanism": _MECHANISMS,
        "sasl.mechanisms": _MECHANISMS,
        "compression.type": _COMPRESSIONS,
        "compression.codec": _COMPRESSIONS,
        "broker.address.family": "any v4 v6",
        "client.dns.lookup": "use_all_dns_ips resolve_canonical_bootstrap_servers_only",
        "socket.keepalive.enable": _TRUTHS,
        "socket.nagle.disable": _TRUTHS,
    }.items()
}
#: Least and most.
NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "broker.address.ttl": (0, 86_400_000),
    "connections.max.idle.ms": (0, _INT_MAX),
    "metadata.max.age.ms": (1, 86_400_000),
    "retry.backoff.ms": (1, 300_000),
    "retry.backoff.max.ms": (1, 300_000),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "batch.num.messages": (1, 1_000_000),
    "batch.size": (1, _INT_MAX),
    "compression.level": (-1, 12),
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
}
#: Of `1e6` the client would take the 1, and of `08` nothing.
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,18})")


def taken(name: str, text: str) -> str:
    """The value as the client takes it. Raises ConfigurationError with those that there are."""
    if name in WORDS:
        words = WORDS[name]
        if text.upper() not in {word.upper() for word in words}:
            raise _refused(name, text, f"{', '.join(words[:-1])} or {words[-1]}")
        return text.upper() if name.startswith("sasl.") else text
    if name in NUMBERS:
        least, most = NUMBERS[name]
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise _refused(name, text, f"a whole number from {least} to {most}")
    return text


def _refused(name: str, text: str, good: str) -> ConfigurationError:
    return ConfigurationError(
        f"kafka.options must not set {name} to {text!r}: Kafka's client takes {good}."
    )
