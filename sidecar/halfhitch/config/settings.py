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
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Meta

from halfhitch.config.kafka_options import KafkaOptions
from halfhitch.config.secret import MASK, Secret
from halfhitch.urls import split_hosts

_MEBIBYTE = 1_048_576
Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_Port = Annotated[int, Meta(ge=0, le=65_535)]


# The TLS of a door; the same for each.
_Certificate = Annotated[
    Path | None, Meta(description="PEM certificate chain: the door then speaks TLS on TCP.")
]
_Key = Annotated[
    Path | None, Meta(description="PEM key of that certificate, if it is in a file of its own.")
]
_ClientCa = Annotated[
    Path | None, Meta(description="PEM certificates of authorities that clients' must come from.")
]
_Clients = Annotated[
    Literal["off", "wanted", "required"],
    Meta(description="Whether clients are asked for a certificate, or turned away without one."),
]
_Minimum = Annotated[Literal["1.2", "1.3"], Meta(description="Oldest version of TLS spoken.")]
_InFront = Annotated[
    bool,
    Meta(
        description="Says that something in front of this door encrypts, such as a mesh or a "
        "proxy; without that or TLS of its own it starts on loopback only."
    ),
]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that share the first part of their key."""


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
    oauth_client_secret_file: Annotated[
        Path | None,
        Meta(description="File whose first line is the secret of sasl.oauthbearer.client.id."),
    ] = None
    msk_iam_region: Annotated[
        Text | None,
        Meta(
            description="AWS region of an MSK cluster with IAM; signs with this machine's AWS "
            "credentials (extra msk).",
        ),
    ] = None
    verify_host_names: Annotated[
        bool,
        Meta(description="Whether a broker's certificate must name its host; false is logged."),
    ] = True
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
    url_file: Annotated[
        Path | None, Meta(description="File with that address; instead of redis.url.")
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
    tls_cert: _Certificate = None
    tls_key: _Key = None
    tls_client_ca: _ClientCa = None
    tls_clients: _Clients = "off"
    tls_minimum: _Minimum = "1.2"
    encrypted_in_front: _InFront = False
    # User headers travel here on the raw route, so twice the usual 16 KiB of other servers.
    header_bytes_max: Annotated[
        int, Meta(ge=1024, le=_MEBIBYTE, description="Largest request line and headers together.")
    ] = 32_768
    # Half of them may be check streams: a door full of streams would take no prepare. The program
    # sees to it that it may have as many open files.
    connections_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Open connections at most; more are closed.")
    ] = 4_096
    # Applications beside a sidecar share one address; behind a load balancer everybody may.
    connections_peer_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Open connections of one address; 0 is half of http.connections_max.",
        ),
    ] = 0
    streams_group_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Check streams of one producer group; 0 is half of all streams, which are "
            "half of http.connections_max.",
        ),
    ] = 0
    # Each waits some milliseconds for Kafka: what is too many shows in the delay. A connection has
    # one request at work at a time, so a bound above http.connections_max is never reached.
    in_flight_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Prepares under way; beyond it new ones get 429."),
    ] = 10_000
    # A caller on the same machine needs milliseconds; one that trickles bytes is broken or hostile.
    receive_s_max: Annotated[
        Seconds, Meta(description="Time a client has to send one whole request.")
    ] = 30.0
    # Longer than the pools of common clients keep theirs (30 s in Java), so that the client closes
    # first and never meets a connection just closed.
    idle_s_max: Annotated[
        Seconds, Meta(description="An idle connection is closed after this time.")
    ] = 75.0


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
        int, Meta(ge=1, le=1_000_000, description="Open connections at most; more are closed.")
    ] = 1_024
    connections_peer_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Open connections of one address; 0 is half of rocketmq.connections_max.",
        ),
    ] = 0
    in_flight_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests under way; beyond it messages get code 2."),
    ] = 10_000
    in_flight_bytes_max: Annotated[
        int,
        Meta(
            ge=1_048_576,
            le=1_099_511_627_776,
            description="The same in bytes that they hold; native threads have half of it.",
        ),
    ] = 134_217_728
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
    tls_key: _Key = None
    tls_client_ca: _ClientCa = None
    tls_clients: _Clients = "off"
    tls_minimum: _Minimum = "1.2"
    encrypted_in_front: _InFront = False
    tls_required: Annotated[
        bool, Meta(description="Whether clients that do not speak TLS are turned away.")
    ] = False
    create_topics: Annotated[
        bool, Meta(description="Whether topics that producers ask for are created in Kafka.")
    ] = False
    create_partitions: Annotated[
        int, Meta(ge=1, le=1_000, description="Partitions of topics that are created so.")
    ] = 4


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
    tls_cert: _Certificate = None
    tls_key: _Key = None
    tls_client_ca: _ClientCa = None
    tls_clients: _Clients = "off"
    tls_minimum: _Minimum = "1.2"
    encrypted_in_front: _InFront = False


class ClientSettings(Group, frozen=True, kw_only=True):
    """Commands and clients, and the sidecar they talk to"""

    tls: Annotated[
        bool,
        Meta(
            description="Whether commands speak TLS to the admin door; they do so anyway where "
            "admin.tls_cert or client.ca_file is set."
        ),
    ] = False
    ca_file: Annotated[
        Path | None,
        Meta(description="PEM certificates of the authorities that are trusted over https://."),
    ] = None
    cert_file: Annotated[
        Path | None, Meta(description="PEM client certificate, where a door asks for one.")
    ] = None
    key_file: Annotated[
        Path | None, Meta(description="PEM key of that certificate, if in a file of its own.")
    ] = None
    server_name: Annotated[
        Text | None,
        Meta(description="Name that the door's certificate must have, if it is called by another."),
    ] = None
    encrypted_in_front: Annotated[
        bool,
        Meta(
            description="Says that something in front of the door that is called encrypts, such as "
            "a mesh; without that a token is sent over TLS and on loopback only."
        ),
    ] = False


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
    identities_file: Annotated[
        Path | None,
        Meta(
            description="TOML file of identities: who may produce, check, observe, operate, for "
            "which groups and topics; read again when it changes. See docs/identities.md."
        ),
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
            description="Prefix of the names of the internal topics and the owner group.",
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


class AuditSettings(Group, frozen=True, kw_only=True):
    """Audit topic"""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether what became of each transaction is kept in a topic of its own, "
            "for halfhitch tx trace."
        ),
    ] = True
    retention_h: Annotated[
        int, Meta(ge=1, le=87_600, description="So many hours Kafka keeps it.")
    ] = 168
    # Bounds stand at the number: beside `| None` msgspec would have none of them.
    replication_factor: Annotated[
        Annotated[int, Meta(ge=1, le=32)] | None,
        Meta(description="Copies of it when it is created; as topics.replication_factor if unset."),
    ] = None


class TracingSettings(Group, frozen=True, kw_only=True):
    """Traces"""

    endpoint: Annotated[str | None, Meta(description="OTLP collector: http://host:4318.")] = None


class InstanceSettings(Group, frozen=True, kw_only=True):
    """Instance"""

    id: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,200}$",
            description="Name of this instance: its own on its host, the same after a restart.",
        ),
    ] = msgspec.field(default_factory=lambda: socket.gethostname() or "halfhitch")


class OwnerSettings(Group, frozen=True, kw_only=True):
    """Owner of half partitions"""

    enabled: Annotated[
        bool, Meta(description="Whether this instance owns half partitions and forwards messages.")
    ] = True
    batch_count_max: Annotated[
        int, Meta(ge=1, le=100_000, description="Messages in one Kafka transaction.")
    ] = 2_000
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


class LimitsSettings(Group, frozen=True, kw_only=True):
    """Bounds of a half partition, and of an identity"""

    # What a half partition takes no more of: see service/transactions/bounds.py.

    undecided_max: Annotated[
        int,
        Meta(
            ge=10,
            le=10_000_000,
            description="Transactions in a half partition that are undecided, or decided and "
            "waiting for a topic that is away; beyond it new prepares get 429. Its owner's memory "
            "holds some 600 bytes for each, 800 to 1,100 for one that waits.",
        ),
    ] = 50_000
    undecided_group_max: Annotated[
        int,
        Meta(
            ge=10,
            le=10_000_000,
            description="Undecided ones of one producer group, counting those older than a "
            "second; and as many may wait for one topic that is away.",
        ),
    ] = 25_000
    lag_s_max: Annotated[
        float,
        Meta(
            ge=1,
            le=3_600,
            description="A half partition takes no prepares while its owner is further behind; "
            "from a quarter of it on they wait, up to 0.25 s.",
        ),
    ] = 8.0
    requests_s_identity_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Requests of one identity in a second, at all doors of this instance "
            "together; what is more gets 429, ends and answers to checks never. 0: as many as "
            "come. An identity may have a number of its own (requests_s_max in its file).",
        ),
    ] = 0


class ChecksSettings(Group, frozen=True, kw_only=True):
    """Check-back"""

    # The defaults are RocketMQ's; its names stand in the descriptions.

    immunity_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=86_400,
            description="A transaction is not checked before this age, unless it asks for another "
            "time (RocketMQ: transactionTimeOut).",
        ),
    ] = 6.0
    interval_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=86_400,
            description="From one check of a transaction to its next (transactionCheckInterval).",
        ),
    ] = 60.0
    backoff: Annotated[
        float,
        Meta(ge=1, le=10, description="Each interval is longer than the last by this factor."),
    ] = 1.0
    interval_s_max: Annotated[
        float,
        Meta(ge=0.1, le=86_400, description="The longest interval, where there is a backoff."),
    ] = 3_600.0
    jitter: Annotated[
        float, Meta(ge=0, le=0.5, description="Intervals are longer by up to this part of them.")
    ] = 0.1
    count_max: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Checks that must have reached a producer before it is given up "
            "(transactionCheckMax).",
        ),
    ] = 15
    age_s_max: Annotated[
        int,
        Meta(
            ge=60,
            le=31_536_000,
            description="A transaction older than this is given up, whatever its count "
            "(fileReservedTime). After a takeover its producers are asked first.",
        ),
    ] = 259_200
    renew_s: Annotated[
        int,
        Meta(
            ge=10,
            le=604_800,
            description="Pending messages older than this are stored anew, so that a takeover "
            "need not read that far back.",
        ),
    ] = 3_600
    answer_s_max: Annotated[Seconds, Meta(description="How long a check waits for its answer.")] = (
        10.0
    )
    in_flight_max: Annotated[
        int,
        Meta(ge=1, le=100_000, description="Checks of one producer group under way at a time."),
    ] = 256
    give_up: Annotated[
        Literal["park", "rollback", "commit"],
        Meta(description="What becomes of a transaction that is given up."),
    ] = "park"
    give_up_topics: Annotated[
        tuple[Text, ...],
        Meta(description="Other policies by topic pattern, first match: orders.*=rollback."),
    ] = ()
    url: Annotated[
        str | None,
        Meta(description="Checks are sent here by POST, for producers that hold no stream."),
    ] = None
    url_groups: Annotated[
        tuple[Text, ...],
        Meta(min_length=1, description="Producer groups (patterns) that checks.url answers for."),
    ] = ("*",)
    url_networks: Annotated[
        tuple[Text, ...],
        Meta(description="Networks checks.url may lead to besides loopback: 10.0.0.0/8."),
    ] = ()
    url_token: Annotated[
        Secret | None, Meta(description="Sent to checks.url in the Half-Token header.")
    ] = None
    url_token_file: Annotated[
        Path | None, Meta(description="File with that token; instead of checks.url_token.")
    ] = None
    url_encrypted_in_front: Annotated[
        bool,
        Meta(
            description="Says that something in front of checks.url encrypts, such as a mesh; "
            "without that checks.url_token is sent over https:// and on loopback only."
        ),
    ] = False


class VisibleSettings(Group, frozen=True, kw_only=True):
    """Waiting"""

    wait_s_max: Annotated[
        Seconds, Meta(description="How long wait=visible waits before it answers 503.")
    ] = 30.0


class DrainSettings(Group, frozen=True, kw_only=True):
    """Stopping"""

    s_max: Annotated[
        Seconds,
        Meta(
            description="How long a stop waits at most, for requests that are under way, and for "
            "the ends of what was prepared over HTTP and is younger than checks.immunity_s."
        ),
    ] = 10.0


class LogSettings(Group, frozen=True, kw_only=True):
    """Logging"""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Lowest level that is written."),
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
    client: ClientSettings = ClientSettings()
    auth: AuthSettings = AuthSettings()
    handle: HandleSettings = HandleSettings()
    topics: TopicsSettings = TopicsSettings()
    audit: AuditSettings = AuditSettings()
    tracing: TracingSettings = TracingSettings()
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

    @property
    def audit_copies(self) -> int:
        """Copies of the audit topic when it is created."""
        return self.audit.replication_factor or self.topics.replication_factor

    def value_of(self, key: str) -> Any:
        """The value of the setting with this dotted key."""
        group, _, name = key.partition(".")
        return getattr(getattr(self, group), name)

    def describe(self) -> tuple[SettingValue, ...]:
        """Every setting with its value and where the value came from; secrets are masked."""
        return tuple(
            SettingValue(
                key=setting.key,
                value=_shown(_without_query(setting.key, self.value_of(setting.key))),
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
        texts.append(split_hosts(self.checks.url or "").query)
        # An access key alone is no secret; what follows it is.
        for pair in self.rocketmq.access_keys:
            texts += [pair.reveal(), pair.reveal().partition(":")[2]]
        if self.redis.url is not None:
            # The library may repeat the password without the rest of the address.
            url = self.redis.url.reveal()
            parts = split_hosts(url)
            given = parts.password or ""
            texts += [url, given, unquote(given)]
            texts += [value for name, value in parse_qsl(parts.query) if name.endswith("password")]
        return tuple(text for text in texts if text)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: everything that flags, environment, file and help need to know."""

    key: str  # kafka.start_wait_s
    type: Any  # as annotated, bounds included
    plain_type: Any  # without bounds and without None
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
        if get_origin(self.plain_type) is Literal:
            return "|".join(get_args(self.plain_type))
        names = {bool: "true|false", int: "INTEGER", float: "NUMBER", Path: "PATH"}
        return names.get(self.plain_type, "LIST" if self.is_list else "TEXT")


def _without_query(key: str, value: object) -> object:
    """Of the one address that is no secret as a whole: its query may hold one."""
    if key != "checks.url" or not isinstance(value, str) or "?" not in value:
        return value
    return f"{value.partition('?')[0]}?{MASK}"


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


def _without_none(plain: Any) -> Any:
    kinds = [part for part in get_args(plain) if part is not NoneType]
    return kinds[0] if NoneType in get_args(plain) else plain


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
                    plain_type=_without_none(plain[field.name]),
                    default=default,
                    description=next(m.description for m in meta if m.description),
                    panel=(group.__doc__ or "").strip(),
                )
            )
    return tuple(rows)


#: Every setting, in the order of the groups above.
SETTINGS: tuple[Setting, ...] = _table()
