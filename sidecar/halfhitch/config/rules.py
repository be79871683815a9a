"""Rules between settings: each is one sentence that names the settings and a good value.

Owns `RULES`, checked for every program, and `SERVE_RULES`, checked for the sidecar alone. A rule
takes the settings and returns its sentence when it is broken. Bounds of single settings are beside
their declaration in settings.py.
"""

import os
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from halfhitch.config.callback_rules import (
    the_callback_may_be_called,
    the_callback_token_fits_a_header,
    the_callback_token_travels_encrypted,
)
from halfhitch.config.doors import doors_do_not_share_a_port, doors_of
from halfhitch.config.loopback import is_loopback
from halfhitch.config.rocketmq import access_secrets, advertised_address
from halfhitch.config.settings import RocketmqSettings, Settings
from halfhitch.config.tracing_rules import traces_can_be_told
from halfhitch.errors import ConfigurationError

Rule = Callable[[Settings], str | None]

#: What librdkafka's method oidc cannot do without.
_OIDC = (
    *("sasl.oauthbearer.method", "sasl.oauthbearer.client.id"),
    *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.token.endpoint.url"),
)
_SOCKET_PATH_BYTES_MAX = 107  # sockaddr_un on Linux holds 108 with its closing zero
_SECRET_BYTES_MIN = 16  # shorter ones can be guessed
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._*?\[\]!-]+")
_HOST_VALUE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


def brokers_are_host_and_port(settings: Settings) -> str | None:
    """Kafka's own message for a missing port comes late and is unclear."""
    for broker in settings.kafka.bootstrap.split(",") if settings.kafka.bootstrap else ():
        match = _BROKER.fullmatch(broker.strip())
        if match is None or not 0 < int(match[2]) <= 65_535:
            return (
                f"kafka.bootstrap has {broker.strip()!r}, which is not host:port: "
                "write for example kafka-1:9092,kafka-2:9092."
            )
    return None


def security_options_fit_together(settings: Settings) -> str | None:
    """With security.protocol left at PLAINTEXT librdkafka ignores user and password in silence."""
    options = settings.kafka.options
    protocol = str(options.get("security.protocol", "plaintext")).lower()
    mechanism = str(options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "")
    if "sasl" in protocol and not mechanism:
        return (
            "kafka.options sets a security.protocol with SASL, and no sasl.mechanism: "
            "add for example sasl.mechanism=SCRAM-SHA-512."
        )
    idle = [
        name
        for name in options
        if (name.startswith("sasl.") and "sasl" not in protocol)
        or (name.startswith("ssl.") and "ssl" not in protocol)
    ]
    if idle:
        good = "SASL_SSL" if idle[0].startswith("sasl.") else "SSL"
        return (
            f"kafka.options sets {idle[0]}, which security.protocol={protocol} ignores: "
            f"add security.protocol={good}."
        )
    return None


def oauth_options_are_complete(settings: Settings) -> str | None:
    """What is missing Kafka's client tells late, and as if the brokers were away."""
    options, region = settings.kafka.options, settings.kafka.msk_iam_region
    mechanism = str(options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "")
    protocol = str(options.get("security.protocol", "plaintext")).lower()
    asked = [name for name in options if name.startswith("sasl.oauthbearer.")]
    if mechanism.upper() != "OAUTHBEARER":
        if region is not None or asked:
            named = "kafka.msk_iam_region" if region is not None else f"{asked[0]} in kafka.options"
            return (
                f"{named} is set, but sasl.mechanism is not OAUTHBEARER: set it in kafka.options."
            )
        return None
    brokers = [broker.strip() for broker in settings.kafka.bootstrap.split(",")]
    if "ssl" not in protocol and not all(is_loopback(b.rpartition(":")[0]) for b in brokers):
        return (
            "kafka.options sets sasl.mechanism=OAUTHBEARER without TLS, so whoever listens has the "
            "tokens: set security.protocol=SASL_SSL."
        )
    if region is not None:
        if asked:
            return f"kafka.msk_iam_region and {asked[0]} are both set: keep one of them."
        return None
    missing = [name for name in _OIDC if name not in options]
    if missing:
        return (
            f"kafka.options sets sasl.mechanism=OAUTHBEARER without {' and '.join(missing)}: give "
            "sasl.oauthbearer.method=oidc, ...client.id and ...token.endpoint.url, and the secret "
            "by kafka.oauth_client_secret_file; for MSK with IAM set kafka.msk_iam_region instead."
        )
    endpoint = urlsplit(str(options["sasl.oauthbearer.token.endpoint.url"]))
    if endpoint.scheme != "https" and not is_loopback(endpoint.hostname or ""):
        return (
            "sasl.oauthbearer.token.endpoint.url does not begin with https://, so the client's "
            "secret would travel in clear: use https://, and https.ca.location for an authority of "
            "your own."
        )
    return None


def tokens_are_long_enough(settings: Settings) -> str | None:
    """A token is all that stands between the network and the doors."""
    for token in settings.auth.tokens:
        text = token.reveal()
        if len(text.encode()) < _SECRET_BYTES_MIN:
            return (
                f"auth.tokens has a token shorter than {_SECRET_BYTES_MIN} bytes: "
                "`halfhitch keygen` prints a good one."
            )
        if not text.isascii() or not text.isprintable() or " " in text:
            return (
                "auth.tokens has a token that no HTTP header can carry: use printable ASCII "
                "without spaces; `halfhitch keygen` prints a good one."
            )
    return None


def handle_keys_are_long_enough(settings: Settings) -> str | None:
    """Whoever guesses the key can end other people's transactions."""
    if any(len(key.reveal().encode()) < _SECRET_BYTES_MIN for key in settings.handle.key):
        return (
            f"handle.key has a key shorter than {_SECRET_BYTES_MIN} bytes: "
            "`halfhitch keygen` prints a good one."
        )
    return None


def socket_path_fits(settings: Settings) -> str | None:
    """The system's own error does not say which path, nor how long it may be."""
    path = settings.http.socket
    if path is not None and len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
        return (
            f"http.socket is {len(os.fsencode(path))} bytes long, but a unix socket's path has at "
            f"most {_SOCKET_PATH_BYTES_MAX}: choose a shorter one, such as /run/halfhitch.sock."
        )
    return None


def hosts_are_header_values(settings: Settings) -> str | None:
    """A URL in place of a host would never match, and every request would be refused."""
    for host in settings.http.hosts:
        if _HOST_VALUE.fullmatch(host) is None:
            return (
                f"http.hosts has {host!r}, which is not a Host header: "
                "write a name, or name:port, such as halfhitch.shop.svc:8340."
            )
    return None


def allowed_topics_are_patterns(settings: Settings) -> str | None:
    """A pattern with a character that no topic has matches nothing."""
    for pattern in settings.topics.allow:
        if _TOPIC_PATTERN.fullmatch(pattern) is None:
            return (
                f"topics.allow has {pattern!r}, which can match no topic: "
                "use letters, digits, '.', '_', '-' and the wildcards * and ?, such as shop.*."
            )
    return None


def a_body_fits_into_a_batch(settings: Settings) -> str | None:
    """All messages of a transaction go into one Kafka transaction."""
    body, batch = settings.messages.bytes_max, settings.owner.batch_bytes_max
    if body > batch:
        return (
            f"messages.bytes_max ({body}) is larger than owner.batch_bytes_max ({batch}), so a "
            f"message could be taken that cannot be forwarded: set owner.batch_bytes_max to "
            f"at least {body}."
        )
    return None


def a_message_fits_into_a_transaction(settings: Settings) -> str | None:
    """A transaction of one message is a transaction."""
    one, all_of_it = settings.messages.bytes_max, settings.messages.transaction_bytes_max
    if one > all_of_it:
        return (
            f"messages.bytes_max ({one}) is larger than messages.transaction_bytes_max "
            f"({all_of_it}): set messages.transaction_bytes_max to at least {one}."
        )
    return None


def a_group_has_no_more_than_all(settings: Settings) -> str | None:
    """Else a single group could use up what all groups may have."""
    group, whole = settings.limits.undecided_group_max, settings.limits.undecided_max
    if group > whole:
        return (
            f"limits.undecided_group_max ({group}) is larger than limits.undecided_max ({whole}): "
            f"set it to {whole // 2} or so, which leaves room for other groups."
        )
    return None


def requests_are_counted_where_callers_are_told_apart(settings: Settings) -> str | None:
    """Else there is nobody to count for, and the bound would be none."""
    if settings.limits.requests_s_identity_max and settings.auth.identities_file is None:
        return (
            "limits.requests_s_identity_max is set, but no identities are: set "
            "auth.identities_file, which tells callers apart, or leave it away."
        )
    return None


def the_cache_holds_a_batch(settings: Settings) -> str | None:
    """Else every batch would read its own payloads back from Kafka."""
    cache, batch = settings.owner.payload_cache_bytes, settings.owner.batch_bytes_max
    if cache < batch:
        return (
            f"owner.payload_cache_bytes ({cache}) is smaller than owner.batch_bytes_max ({batch}): "
            f"set owner.payload_cache_bytes to at least {4 * batch}."
        )
    return None


def the_horizon_outlasts_a_kafka_transaction(settings: Settings) -> str | None:
    """A duplicate that waited behind an open Kafka transaction must still be recognised."""
    horizon_s, limit_ms = settings.ledger.horizon_s, settings.owner.transaction_timeout_ms
    if horizon_s * 1000 <= limit_ms:
        return (
            f"ledger.horizon_s ({horizon_s} s) is not longer than owner.transaction_timeout_ms "
            f"({limit_ms} ms): set ledger.horizon_s to at least {limit_ms // 1000 * 2}."
        )
    return None


def the_watchdog_outlasts_a_kafka_transaction(settings: Settings) -> str | None:
    """A commit may rightly take as long as Kafka lets the Kafka transaction be."""
    hung_s, limit_ms = settings.owner.hung_call_s, settings.owner.transaction_timeout_ms
    if hung_s and hung_s * 1000 < limit_ms + 10_000:
        return (
            f"owner.hung_call_s ({hung_s} s) must be ten seconds longer than "
            f"owner.transaction_timeout_ms ({limit_ms} ms), or a commit that is merely slow would "
            f"end the process: set it to {limit_ms // 1000 + 10} or more, or to 0 (never)."
        )
    return None


def the_policies_can_be_read(settings: Settings) -> str | None:
    """checks.give_up_topics: pattern=policy."""
    if not settings.checks.give_up_topics:
        return None  # checks.give_up is one of three words by its type
    from halfhitch.service.checking.policy import GiveUpPolicy

    try:
        GiveUpPolicy(settings.checks.give_up, settings.checks.give_up_topics)
    except ConfigurationError as error:
        return error.message
    return None


def the_rocketmq_door_can_be_opened(settings: Settings) -> str | None:
    """What its texts mean is found out now, not when the first client comes."""
    rocketmq = settings.rocketmq
    try:
        access_secrets(rocketmq.access_keys)
        advertised_address(rocketmq.advertised)
    except ConfigurationError as error:
        return error.message
    if rocketmq.tls_cert is None and rocketmq.tls_required:
        return (
            "rocketmq.tls_required is set without rocketmq.tls_cert: name the file with the "
            "certificate chain."
        )
    if rocketmq.tls_clients == "required" and not rocketmq.tls_required:
        return (
            "rocketmq.tls_clients is required, but whoever speaks no TLS would get in without a "
            "certificate: set rocketmq.tls_required to true."
        )
    return None


def tls_settings_fit_together(settings: Settings) -> str | None:
    """Half of what TLS needs would be TLS that somebody believes in and that is not there."""
    for door, chosen in doors_of(settings):
        if chosen.tls_cert is None:
            for name in ("tls_key", "tls_client_ca"):
                if getattr(chosen, name) is not None:
                    return (
                        f"{door}.{name} is set without {door}.tls_cert: name the file with the "
                        "certificate chain."
                    )
        if chosen.tls_clients == "off" and chosen.tls_client_ca is not None:
            return (
                f"{door}.tls_client_ca is set, but {door}.tls_clients is off, so nobody is asked "
                f"for a certificate: set {door}.tls_clients to required, or to wanted."
            )
        if chosen.tls_clients != "off" and chosen.tls_client_ca is None:
            return (
                f"{door}.tls_clients is {chosen.tls_clients} without {door}.tls_client_ca: name "
                "the file with the certificates of the authorities that clients' must come from."
            )
    return None


def redis_url_can_be_read(settings: Settings) -> str | None:
    """Its forms: redis://, rediss:// (TLS), unix://, redis+sentinel://h1:26379,h2:26379/service/0
    and redis+cluster://h1:6379,h2:6379; the last two also as rediss+..."""
    url = settings.redis.url
    if url is None:
        return None
    from halfhitch.adapters.redis.address import parse

    try:
        parse(url.reveal())
    except ConfigurationError as error:
        return error.message
    return None


def kafka_is_named(settings: Settings) -> str | None:
    """There is no sensible default: a wrong cluster is worse than none."""
    if not settings.kafka.bootstrap:
        return (
            "kafka.bootstrap is not set: give --kafka-bootstrap or HALFHITCH_KAFKA_BOOTSTRAP, "
            "for example 127.0.0.1:9092."
        )
    return None


def handles_are_signed(settings: Settings) -> str | None:
    """A key made up at the start would make handles worthless on all other instances."""
    if not settings.handle.key:
        return (
            "handle.key is not set: give HALFHITCH_HANDLE_KEY or handle.key_file, the same on all "
            "instances; `halfhitch keygen` prints a good key."
        )
    return None


def identities_can_be_read(settings: Settings) -> str | None:
    """A sidecar that starts without those it was given would be open to all, or to none."""
    if settings.auth.identities_file is None:
        return None
    from halfhitch.config.identities import (
        known_access_keys,
        read_identities_file,
        shared_token_hashes,
    )

    try:
        found = read_identities_file(
            settings.auth.identities_file,
            known_access_keys(settings),
            shared_token_hashes(settings),
        )
    except ConfigurationError as error:
        return error.message
    if settings.http.tls_clients == settings.admin.tls_clients == "off":
        for identity in found:
            if identity.certificates:
                return (
                    f"auth.identities_file: identity {identity.name!r} has certificates, but no "
                    "HTTP door asks for one: set http.tls_client_ca and http.tls_clients=wanted, "
                    "or the same of admin."
                )
    return None


def open_doors_have_a_lock(settings: Settings) -> str | None:
    """Whoever reaches a door can end transactions or read their state."""
    rocketmq = settings.rocketmq
    if rocketmq.enabled and not rocketmq.access_keys and not is_loopback(rocketmq.host):
        return (
            f"rocketmq.host is {rocketmq.host}, which other machines reach, but "
            "rocketmq.access_keys is not set: set it or rocketmq.access_key_file to pairs "
            "access:secret, or set rocketmq.host to 127.0.0.1."
        )
    has_identities = settings.auth.identities_file is not None
    if settings.auth.tokens or has_identities:
        if rocketmq.enabled and not rocketmq.access_keys:
            lock = "auth.identities_file" if has_identities else "auth.tokens"
            return (
                f"{lock} locks the HTTP doors, but the RocketMQ door asks for no token and "
                "would stay open: set rocketmq.access_keys or rocketmq.access_key_file to pairs "
                "access:secret, or set rocketmq.enabled to false."
            )
        return None
    for key, host in (("http.host", settings.http.host), ("admin.host", settings.admin.host)):
        if not is_loopback(host):
            return (
                f"{key} is {host}, which other machines reach, but auth.tokens is not set: set "
                f"auth.tokens or auth.token_file (`halfhitch keygen` prints a good token), or "
                f"auth.identities_file, or set {key} to 127.0.0.1."
            )
    return None


def secrets_travel_encrypted(settings: Settings) -> str | None:
    """Beyond loopback a token in clear is everybody's token, and so are the messages."""
    for door, chosen in doors_of(settings):
        is_encrypted = chosen.tls_cert is not None
        remedy = f"set {door}.tls_cert and {door}.tls_key"
        if isinstance(chosen, RocketmqSettings):
            if not chosen.enabled:
                continue
            is_encrypted = is_encrypted and chosen.tls_required
            remedy += f", and {door}.tls_required to true"
        if is_loopback(chosen.host) or is_encrypted or chosen.encrypted_in_front:
            continue
        return (
            f"{door}.host is {chosen.host}, which other machines reach, and what travels there is "
            f"not encrypted: secrets and messages could be read on the way. {remedy.capitalize()}; "
            f"or, if a mesh or a proxy in front of this door encrypts, set "
            f"{door}.encrypted_in_front to true."
        )
    return None


#: True of every Settings object.
RULES: tuple[Rule, ...] = (
    brokers_are_host_and_port,
    security_options_fit_together,
    oauth_options_are_complete,
    tokens_are_long_enough,
    handle_keys_are_long_enough,
    doors_do_not_share_a_port,
    socket_path_fits,
    hosts_are_header_values,
    allowed_topics_are_patterns,
    a_body_fits_into_a_batch,
    a_message_fits_into_a_transaction,
    a_group_has_no_more_than_all,
    requests_are_counted_where_callers_are_told_apart,
    the_cache_holds_a_batch,
    the_horizon_outlasts_a_kafka_transaction,
    the_watchdog_outlasts_a_kafka_transaction,
    the_callback_may_be_called,
    the_callback_token_fits_a_header,
    the_callback_token_travels_encrypted,
    redis_url_can_be_read,
    the_policies_can_be_read,
    the_rocketmq_door_can_be_opened,
    tls_settings_fit_together,
)
#: True besides of settings for tools that talk to Kafka.
TOOL_RULES: tuple[Rule, ...] = (kafka_is_named,)
#: True besides of settings that a sidecar starts with.
SERVE_RULES: tuple[Rule, ...] = (
    kafka_is_named,
    traces_can_be_told,
    handles_are_signed,
    identities_can_be_read,
    open_doors_have_a_lock,
    secrets_travel_encrypted,
)


def check(settings: Settings, rules: tuple[Rule, ...]) -> None:
    """Raise ConfigurationError with the sentence of the first broken rule."""
    for rule in rules:
        sentence = rule(settings)
        if sentence is not None:
            raise ConfigurationError(sentence)
