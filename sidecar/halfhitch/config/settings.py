"""Every setting: its name, type, bounds, default and what it does. Defaults live here alone.

Owns the groups, `Settings`, and `SETTINGS`, the one table from which flags, environment variables,
file keys, help texts and the dump are made. Invariants: a unit ends the name of every number that
has one; secrets are of type Secret; objects are frozen. Reading and checking happen in load.py and
rules.py.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Meta

from halfhitch.config.checks import ChecksSettings
from halfhitch.config.group import Group, Seconds, Text
from halfhitch.config.kafka_options import KafkaOptions
from halfhitch.config.limits import LimitsSettings
from halfhitch.config.rocketmq import RocketmqSettings
from halfhitch.config.secret import MASK, Secret

_MEBIBYTE = 1_048_576
_Port = Annotated[int, Meta(ge=0, le=65_535)]


class KafkaSettings(Group, frozen=True, kw_only=True):
    """Kafka connection"""

    bootstrap: Annotated[
        str, Meta(description="Brokers to start from: host:port, several separated by commas.")
    ] = ""
    options: Annotated[
        KafkaOptions,
        Meta(description="More librdkafka options, from the allow-list: compression.type=lz4."),
    ] = KafkaOptions()
    sasl_password_file: Annotated[
        Path | None,
        Meta(description="File whose first line is the SASL password (for kafka.options)."),
    ] = None
    start_wait_s: Annotated[
        Seconds, Meta(description="How long commands wait for Kafka; a sidecar goes on trying.")
    ] = 30.0


class RedisSettings(Group, frozen=True, kw_only=True):
    """Redis connection"""

    url: Annotated[
        Secret | None,
        Meta(
            description="Redis address, such as redis://127.0.0.1:6379/0; may hold a password. "
            "Also rediss://, unix://, redis+sentinel://host,host/service and "
            "redis+cluster://host,host."
        ),
    ] = None


class HttpSettings(Group, frozen=True, kw_only=True):
    """Data door (HTTP)"""

    host: Annotated[
        Text, Meta(description="Address the data door binds; beyond loopback it needs a token.")
    ] = "127.0.0.1"
    port: Annotated[_Port, Meta(description="Port of the data door; 0 takes any free port.")] = 8340
    socket: Annotated[
        Path | None,
        Meta(description="Path of a unix socket to serve as well; faster than TCP by half."),
    ] = None
    hosts: Annotated[
        tuple[Text, ...],
        Meta(description="Host header values to accept besides loopback and http.host."),
    ] = ()
    header_bytes_max: Annotated[
        int, Meta(ge=1024, le=_MEBIBYTE, description="Largest request line and headers together.")
    ] = 32_768
    connections_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Open connections; further ones are closed.")
    ] = 4_096
    in_flight_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Prepares under way; beyond it new ones get 429."),
    ] = 10_000
    receive_s_max: Annotated[
        Seconds, Meta(description="Time a client has to send one whole request.")
    ] = 30.0
    idle_s_max: Annotated[
        Seconds, Meta(description="An idle connection is closed after this time.")
    ] = 75.0


class MessagesSettings(Group, frozen=True, kw_only=True):
    """Messages"""

    bytes_max: Annotated[
        int,
        Meta(
            ge=1024,
            le=64 * _MEBIBYTE,
            description="Largest message (key, value, headers); topics must take as much.",
        ),
    ] = 1_000_000
    transaction_bytes_max: Annotated[
        int,
        Meta(
            ge=1024,
            le=1024 * _MEBIBYTE,
            description="All messages of a transaction together; one Kafka transaction takes them.",
        ),
    ] = 32 * _MEBIBYTE


class AdminSettings(Group, frozen=True, kw_only=True):
    """Admin door"""

    host: Annotated[
        Text, Meta(description="Address the admin door binds; beyond loopback it needs a token.")
    ] = "127.0.0.1"
    port: Annotated[_Port, Meta(description="Port of the admin door; 0 takes any free port.")] = (
        8341
    )


class AuthSettings(Group, frozen=True, kw_only=True):
    """Access"""

    tokens: Annotated[
        tuple[Secret, ...],
        Meta(
            max_length=2,
            description="One or two valid values of the Half-Token header (two while rotating); "
            "the RocketMQ door then needs access keys.",
        ),
    ] = ()
    token_file: Annotated[
        Path | None,
        Meta(description="File with one or two tokens, one a line; instead of auth.tokens."),
    ] = None


class HandleSettings(Group, frozen=True, kw_only=True):
    """Handles"""

    key: Annotated[
        tuple[Secret, ...],
        Meta(
            max_length=2,
            description="One or two keys of at least 16 bytes: the first signs handles, both "
            "verify them; equal on all instances. `halfhitch keygen` makes one.",
        ),
    ] = ()
    key_file: Annotated[
        Path | None,
        Meta(description="File with one or two keys, one a line; instead of handle.key."),
    ] = None


class TopicsSettings(Group, frozen=True, kw_only=True):
    """Topics"""

    prefix: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{0,200}$",
            description="Put before the names of the internal topics and the owner group.",
        ),
    ] = ""
    partitions: Annotated[
        int, Meta(ge=1, le=1_000, description="Partitions of the half and op topics, for ever.")
    ] = 4
    replication_factor: Annotated[
        int, Meta(ge=1, le=32, description="Copies of each internal topic when it is created.")
    ] = 3
    create: Annotated[
        bool,
        Meta(description="Whether a starting sidecar creates internal topics that are missing."),
    ] = False
    allow: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            description="Patterns of topics that this instance takes messages for; what another "
            "instance took is forwarded.",
        ),
    ] = ("*",)


class InstanceSettings(Group, frozen=True, kw_only=True):
    """Instance"""

    id: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,200}$",
            description="Name of this instance, unique and the same after a restart.",
        ),
    ] = msgspec.field(default_factory=lambda: socket.gethostname() or "halfhitch")


class OwnerSettings(Group, frozen=True, kw_only=True):
    """Owner of half partitions"""

    enabled: Annotated[
        bool, Meta(description="Whether this instance owns half partitions and forwards messages.")
    ] = True
    batch_count_max: Annotated[
        int, Meta(ge=1, le=100_000, description="Messages in one Kafka transaction.")
    ] = 1_000
    batch_bytes_max: Annotated[
        int, Meta(ge=65_536, le=256 * _MEBIBYTE, description="Bytes in one Kafka transaction.")
    ] = 4_000_000
    payload_cache_bytes: Annotated[
        int,
        Meta(
            ge=65_536,
            description="Memory for payloads of pending messages; others are read from Kafka.",
        ),
    ] = 32 * _MEBIBYTE
    transaction_timeout_ms: Annotated[
        int,
        Meta(
            ge=5_000,
            le=900_000,
            description="Kafka aborts the owner's transaction after this; until then a frozen "
            "owner holds back readers.",
        ),
    ] = 15_000
    session_timeout_ms: Annotated[
        int,
        Meta(ge=6_000, le=1_800_000, description="A silent owner loses its partitions after this."),
    ] = 10_000
    hung_call_s: Annotated[
        int,
        Meta(
            ge=0,
            le=3_600,
            description="A call into Kafka's client that hangs for so long ends the process, with "
            "a traceback, so that it is restarted; 0: never.",
        ),
    ] = 30
    static_membership: Annotated[
        bool,
        Meta(
            description="Keep this instance's partitions for it while it restarts, under the name "
            "of instance.id; one that stops for good holds them for session_timeout_ms."
        ),
    ] = False


class LedgerSettings(Group, frozen=True, kw_only=True):
    """Ledger"""

    horizon_s: Annotated[
        int,
        Meta(
            ge=60,
            le=604_800,
            description="How long finished transactions are remembered, so that no repeat of them "
            "doubles; longer than any retry.",
        ),
    ] = 900
    finished_max: Annotated[
        int,
        Meta(
            ge=1_000,
            description="Messages of finished transactions remembered in each half partition at "
            "most; two thirds of them at least, if horizon_s is that long. Each takes 35 bytes of "
            "memory, and 10 us of a takeover.",
        ),
    ] = 600_000


class VisibleSettings(Group, frozen=True, kw_only=True):
    """Waiting"""

    wait_s_max: Annotated[
        Seconds, Meta(description="How long wait=visible waits before it answers 503.")
    ] = 30.0


class DrainSettings(Group, frozen=True, kw_only=True):
    """Stopping"""

    s_max: Annotated[
        Seconds, Meta(description="How long a stop waits for requests that are under way.")
    ] = 10.0


class LogSettings(Group, frozen=True, kw_only=True):
    """Logging"""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Least level that is written."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], Meta(description="Lines for people, or one JSON object a line.")
    ] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """One row of the dump: safe to show, secrets are masked."""

    key: str
    value: str | int | float | bool | None
    source: str
    description: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of one instance; made by `load`, which checks them as a whole."""

    kafka: KafkaSettings = KafkaSettings()
    redis: RedisSettings = RedisSettings()
    http: HttpSettings = HttpSettings()
    rocketmq: RocketmqSettings = RocketmqSettings()
    messages: MessagesSettings = MessagesSettings()
    admin: AdminSettings = AdminSettings()
    auth: AuthSettings = AuthSettings()
    handle: HandleSettings = HandleSettings()
    topics: TopicsSettings = TopicsSettings()
    instance: InstanceSettings = msgspec.field(default_factory=InstanceSettings)
    owner: OwnerSettings = OwnerSettings()
    ledger: LedgerSettings = LedgerSettings()
    limits: LimitsSettings = LimitsSettings()
    checks: ChecksSettings = ChecksSettings()
    visible: VisibleSettings = VisibleSettings()
    drain: DrainSettings = DrainSettings()
    log: LogSettings = LogSettings()
    #: Where each value that is not a default came from; no setting itself.
    sources: dict[str, str] = {}

    def value_of(self, key: str) -> Any:
        """The value of the setting with this dotted key."""
        group, _, name = key.partition(".")
        return getattr(getattr(self, group), name)

    def describe(self) -> tuple[SettingValue, ...]:
        """Every setting with its value and where the value came from; secrets are masked."""
        return tuple(
            SettingValue(
                key=setting.key,
                value=_shown(self.value_of(setting.key)),
                source=self.sources.get(setting.key, "default"),
                description=setting.description,
            )
            for setting in SETTINGS
        )

    def secrets(self) -> tuple[str, ...]:
        """Every secret text, revealed, for the log's redaction filter and nothing else."""
        found: list[Secret] = [*self.auth.tokens, *self.handle.key]
        found += [value for value in self.kafka.options.values() if isinstance(value, Secret)]
        if self.checks.url_token is not None:
            found.append(self.checks.url_token)
        texts = [secret.reveal() for secret in found]
        # An access key alone is no secret; what follows it is.
        for pair in self.rocketmq.access_keys:
            texts += [pair.reveal(), pair.reveal().partition(":")[2]]
        if self.redis.url is not None:
            # The library may repeat the password without the rest of the address.
            url = self.redis.url.reveal()
            parts = urlsplit(url)
            given = parts.password or ""
            texts += [url, given, unquote(given)]
            texts += [value for name, value in parse_qsl(parts.query) if name.endswith("password")]
        return tuple(text for text in texts if text)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: everything that flags, environment, file and help need to know."""

    key: str  # kafka.start_wait_s
    type: Any  # as annotated, bounds included
    plain_type: Any  # without bounds
    default: Any
    description: str
    panel: str  # heading in the help

    @property
    def flag(self) -> str:
        """--kafka-start-wait-s"""
        return "--" + self.key.replace(".", "-").replace("_", "-")

    @property
    def env(self) -> str:
        """HALFHITCH_KAFKA_START_WAIT_S"""
        return "HALFHITCH_" + self.key.replace(".", "_").upper()

    @property
    def is_list(self) -> bool:
        """Several values: comma separated as text, an array in the file."""
        return get_origin(self.plain_type) is tuple

    @property
    def is_map(self) -> bool:
        """name=value pairs as text, a table in the file."""
        return self.plain_type is KafkaOptions

    @property
    def is_secret(self) -> bool:
        """Never shown."""
        return Secret in (self.plain_type, *get_args(self.plain_type))

    @property
    def metavar(self) -> str:
        """What stands for the value in help texts."""
        if self.is_map:
            return "NAME=VALUE"
        arguments = get_args(self.plain_type)
        if get_origin(self.plain_type) is Literal:
            return "|".join(arguments)
        if Path in arguments:
            return "PATH"
        numbers = {int: "INTEGER", float: "NUMBER"}
        return numbers.get(self.plain_type, "LIST" if self.is_list else "TEXT")


def _shown(value: object) -> str | int | float | bool | None:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_shown(part)}" for name, part in value.items())
    if isinstance(value, tuple):
        return ",".join(str(_shown(part)) for part in value)
    if isinstance(value, Secret):
        return MASK
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _table() -> tuple[Setting, ...]:
    rows: list[Setting] = []
    for group_name, group in get_type_hints(Settings).items():
        if not (isinstance(group, type) and issubclass(group, Group)):
            continue
        plain = get_type_hints(group)
        full = get_type_hints(group, include_extras=True)
        for field in msgspec.structs.fields(group):
            meta = [part for part in get_args(full[field.name])[1:] if isinstance(part, Meta)]
            default = (
                field.default if field.default is not msgspec.NODEFAULT else field.default_factory
            )
            rows.append(
                Setting(
                    key=f"{group_name}.{field.name}",
                    type=full[field.name],
                    plain_type=plain[field.name],
                    default=default,
                    description=next(m.description for m in meta if m.description),
                    panel=(group.__doc__ or "").strip(),
                )
            )
    return tuple(rows)


#: Every setting, in the order of the groups above.
SETTINGS: tuple[Setting, ...] = _table()
