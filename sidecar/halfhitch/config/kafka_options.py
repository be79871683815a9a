"""Which librdkafka options a user may set, and why the others are refused.

Owns the allow-list. Its invariants: an option that is not on the list never reaches a Kafka client,
and every refusal says why and what to do instead. Options that carry a promise of Half Hitch (acks,
idempotence, isolation, anything about transactions, timeouts derived from one another) are locked.
It does not know which client gets which option beyond producer, consumer or both.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from halfhitch.config import kafka_values
from halfhitch.config.secret import Secret
from halfhitch.errors import ConfigurationError

ClientKind = Literal["producer", "consumer", "admin"]
_Role = Literal["any", "producer", "consumer"]


class _Kind(Enum):
    PLAIN = "plain"
    HIDDEN = "hidden"  # a password or a key: kept as a Secret
    PATH = "path"  # of a file that must be readable


@dataclass(frozen=True, slots=True)
class _Option:
    role: _Role = "any"
    kind: _Kind = _Kind.PLAIN


def _options(role: _Role, kind: _Kind, names: str) -> dict[str, _Option]:
    return {name: _Option(role, kind) for name in names.split()}


_ALLOWED: dict[str, _Option] = {
    **_options(
        "any",
        _Kind.PLAIN,
        """
        security.protocol sasl.mechanism sasl.mechanisms sasl.username
        sasl.kerberos.service.name sasl.kerberos.principal
        sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.token.endpoint.url
        sasl.oauthbearer.scope sasl.oauthbearer.extensions
        ssl.ca.pem ssl.certificate.pem ssl.cipher.suites ssl.curves.list ssl.sigalgs.list
        ssl.endpoint.identification.algorithm
        broker.address.family broker.address.ttl client.dns.lookup client.rack
        connections.max.idle.ms metadata.max.age.ms retry.backoff.ms retry.backoff.max.ms
        socket.keepalive.enable socket.nagle.disable socket.receive.buffer.bytes
        socket.send.buffer.bytes
        """,
    ),
    **_options(
        "any",
        _Kind.HIDDEN,
        "sasl.password ssl.key.pem ssl.key.password ssl.keystore.password "
        "sasl.oauthbearer.client.secret",
    ),
    **_options(
        "any",
        _Kind.PATH,
        """
        ssl.ca.location ssl.certificate.location ssl.key.location ssl.keystore.location
        ssl.crl.location sasl.kerberos.keytab https.ca.location
        """,
    ),
    **_options(
        "producer",
        _Kind.PLAIN,
        "batch.num.messages batch.size compression.codec compression.level compression.type",
    ),
    **_options(
        "consumer",
        _Kind.PLAIN,
        "fetch.message.max.bytes max.partition.fetch.bytes",
    ),
}

_LOCKED = "Half Hitch's promises depend on its value; remove it"
_DERIVED = (
    "it is derived from other settings so that limits nest; "
    "remove it, or set owner.transaction_timeout_ms"
)
_MEASURED = "Half Hitch sets it to a value that was measured to suit its own traffic; remove it"
_FETCHES = (
    "it makes this process fetch an address or read a file that the option names; "
    "use SCRAM or a client certificate"
)
#: Options that may be given at all.
NAMES: frozenset[str] = frozenset(_ALLOWED)
#: Options that are passwords or keys.
HIDDEN: frozenset[str] = frozenset(
    name for name, option in _ALLOWED.items() if option.kind is _Kind.HIDDEN
)
#: Options that name files.
FILES: frozenset[str] = frozenset(
    name for name, option in _ALLOWED.items() if option.kind is _Kind.PATH
)
#: Options with two names; librdkafka takes whichever it hears last.
ALIASES: dict[str, str] = {
    name: other
    for pair in (
        ("sasl.mechanism", "sasl.mechanisms"),
        ("compression.codec", "compression.type"),
        ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    )
    for name, other in (pair, pair[::-1])
}
#: Names (blank separated regular expressions) and why they are refused.
_REFUSED_NAMES: dict[str, str] = {
    r"bootstrap\.servers metadata\.broker\.list": "the brokers are named by kafka.bootstrap; "
    "set that instead",
    r"client\.id group\.instance\.id": "it is made from instance.id; set that instead",
    r"""
    acks request\.required\.acks enable\.idempotence enable\.gapless\.guarantee isolation\.level
    transactional\.id group\.id group\.protocol group\.remote\.assignor enable\.auto\.commit
    auto\.commit\..* enable\.auto\.offset\.store auto\.offset\.reset allow\.auto\.create\.topics
    partition\.assignment\.strategy partitioner check\.crcs max\.in\.flight.* retries
    message\.send\.max\.retries enable\.partition\.eof
    """: _LOCKED,
    r"transaction\.timeout\.ms": "set owner.transaction_timeout_ms instead",
    r"session\.timeout\.ms": "set owner.session_timeout_ms instead",
    r"""
    message\.timeout\.ms delivery\.timeout\.ms socket\.timeout\.ms request\.timeout\.ms
    max\.poll\.interval\.ms heartbeat\.interval\.ms socket\.connection\.setup\.timeout\.ms
    statistics\.interval\.ms
    """: _DERIVED,
    r"message\.max\.bytes receive\.message\.max\.bytes": "it follows messages.bytes_max; "
    "set that instead",
    r"""
    linger\.ms queue\.buffering\..* fetch\.max\.bytes fetch\.min\.bytes fetch\.wait\.max\.ms
    fetch\.error\.backoff\.ms queued\..* reconnect\.backoff.* topic\.metadata\..*
    """: _MEASURED,
    r"plugin\..* ssl\.engine.* ssl\.providers": "it loads code into this process; remove it",
    r"sasl\.kerberos\.kinit\.cmd": "it runs a shell command; renew the keytab outside",
    r"sasl\.oauthbearer\..* enable\.sasl\.oauthbearer\.unsecure\.jwt https\..*": _FETCHES,
    r"enable\.ssl\.certificate\.verification": "without it anybody can pose as Kafka; "
    "give ssl.ca.location instead",
    r"test\..*": "it silently replaces the cluster by a mock in memory; remove it",
    r"debug log_level log\..*": "it can write secrets to the log; set log.level instead",
    r".*_cb opaque default_topic_config": "it is code, not a setting; remove it",
}
_REFUSED = tuple(
    (re.compile("|".join(names.split())), reason) for names, reason in _REFUSED_NAMES.items()
)

#: Options of which some values are no good, and why.
_ONE_OF: dict[str, tuple[frozenset[str], str]] = {
    "ssl.endpoint.identification.algorithm": (
        frozenset({"https"}),
        "others could pose as Kafka; if that is meant, set kafka.verify_host_names to false",
    ),
    "sasl.oauthbearer.method": (
        frozenset({"oidc"}),
        "only oidc (client credentials) is taken; for MSK with IAM set kafka.msk_iam_region",
    ),
}

#: A comma splits only before the next `name=`, since values have commas of their own. A name with
#: capitals counts where it has a dot: extensions of OAUTHBEARER, a value, are `a=1,poolId=2`.
_NEXT_PAIR = re.compile(r",\s*(?=(?:[a-z][a-z0-9._]*|[A-Za-z][A-Za-z0-9_]*\.[A-Za-z0-9._]*)\s*=)")

OptionValue = str | Secret


def pairs_of(text: str) -> list[str]:
    """`a=1, b=2` as its pairs; an object in JSON stays whole."""
    return [text] if text.lstrip().startswith("{") else _NEXT_PAIR.split(text)


class KafkaOptions(Mapping[str, OptionValue]):
    """Checked librdkafka options, immutable; passwords are Secrets until a client is made."""

    __slots__ = ("_values", "msk_iam_region")

    def __init__(self, raw: Mapping[str, object] | None = None) -> None:
        """Check every option; raises ConfigurationError with the reason for the first bad one."""
        #: Whose IAM signs tokens, if any does.
        self.msk_iam_region: str | None = None
        self._values: dict[str, OptionValue] = {
            name: _checked(name, value) for name, value in (raw or {}).items()
        }

    def for_client(self, kind: ClientKind) -> dict[str, Any]:
        """Plain options for one kind of client, secrets revealed: hand over, do not keep.

        For MSK's IAM with the callback that signs tokens. Raises ConfigurationError then, without
        the extra.
        """
        roles = {"any", kind}
        options: dict[str, Any] = {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in self._values.items()
            if _ALLOWED[name].role in roles
        }
        if self.msk_iam_region is not None:
            from halfhitch.adapters.kafka.msk import token_callback

            options["oauth_cb"] = token_callback(self.msk_iam_region)
        return options

    def with_secret(self, name: str, secret: str) -> "KafkaOptions":
        """The same options and a secret that came from a file."""
        return self._with({name: Secret(secret)})

    def with_msk_iam(self, region: str) -> "KafkaOptions":
        """The same options, and what MSK's IAM wants where nothing else is said."""
        wanted: dict[str, OptionValue] = {"security.protocol": "SASL_SSL"}
        if "sasl.mechanisms" not in self:
            wanted["sasl.mechanism"] = "OAUTHBEARER"
        copy = KafkaOptions()
        copy._values = {**wanted, **self._values}
        copy.msk_iam_region = region
        return copy

    def with_any_host_name(self) -> "KafkaOptions":
        """The same options, but a broker's certificate may be for any host."""
        if "ssl" not in str(self.get("security.protocol", "")).lower():
            return self
        return self._with({"ssl.endpoint.identification.algorithm": "none"})

    def _with(self, more: Mapping[str, OptionValue]) -> "KafkaOptions":
        copy = KafkaOptions()
        copy._values = {**self._values, **more}
        copy.msk_iam_region = self.msk_iam_region
        return copy

    def __getitem__(self, name: str) -> OptionValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"KafkaOptions({self._values!r})"


def _checked(name: str, value: object) -> OptionValue:
    option = _ALLOWED.get(name)
    for pattern, reason in _REFUSED if option is None else ():
        if pattern.fullmatch(name):
            raise ConfigurationError(f"kafka.options must not set {name}: {reason}.")
    if option is None:
        raise ConfigurationError(
            f"kafka.options has the unknown key {name!r}{_nearest(name)}: only options on the "
            "allow-list are passed to Kafka."
        )
    text = _text(name, value)
    taken = _ONE_OF.get(name)
    if taken is not None and text.lower() not in taken[0]:
        raise ConfigurationError(f"kafka.options must not set {name} to {text!r}: {taken[1]}.")
    if option.kind is _Kind.HIDDEN:
        return Secret(text)
    if option.kind is _Kind.PATH:
        _check_readable(name, text)
    return kafka_values.taken(name, text)


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, _ALLOWED, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _text(name: str, value: object) -> str:
    """Kafka takes text; TOML and JSON also give numbers and truth values. Never shows the value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(int(value) if value == value // 1 else value)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"kafka.options.{name} must be a text or a number, not empty.")
    if "\0" in value or ("\n" in value.strip() and not name.endswith(".pem")):
        raise ConfigurationError(f"kafka.options.{name} must not contain line breaks.")
    return value


def _check_readable(name: str, text: str) -> None:
    if name == "ssl.ca.location" and (text == "probe" or Path(text).is_dir()):
        return
    try:
        with Path(text).open("rb"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"kafka.options.{name} names {text!r}, which cannot be read "
            f"({error.strerror or error}): give the path of a readable file."
        ) from None
