"""Every rule between settings has an example that breaks it, and a sentence that mends it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from halfhitch.config import Purpose, Settings, load, rules
from halfhitch.errors import ConfigurationError

GOOD: dict[str, object] = {"kafka.bootstrap": "kafka:9092", "handle.key": "k" * 32}
TOKEN = "t" * 16
IDENTITIES = Path(__file__).with_name("identities.toml")
OIDC: dict[str, object] = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "sidecar",
    "sasl.oauthbearer.client.secret": "not a secret",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
}
#: Signed, and reached by other machines.
CERTIFICATES_REQUIRED: dict[str, object] = {
    "rocketmq.tls_cert": "c.pem",
    "rocketmq.tls_client_ca": "ca.pem",
    "rocketmq.tls_clients": "required",
    "rocketmq.tls_required": True,
}
ROCKETMQ_BEYOND: dict[str, object] = {
    "rocketmq.enabled": True,
    "rocketmq.host": "::",
    "rocketmq.access_keys": "a:12345678",
}
CERTIFIED = Path(__file__).with_name("identities_certified.toml")
KEYLESS = Path(__file__).with_name("identities_keyless.toml")
WITH_IDENTITIES = {"auth.identities_file": IDENTITIES, "rocketmq.enabled": True}

#: Rule, settings that break it, words its sentence must have: the settings' names and a good value.
BROKEN: list[tuple[rules.Rule, Mapping[str, object], tuple[str, ...]]] = [
    (
        rules.brokers_are_host_and_port,
        {"kafka.bootstrap": "kafka:9092,kafka"},
        ("kafka.bootstrap", "'kafka'", "kafka-1:9092"),
    ),
    (
        rules.brokers_are_host_and_port,
        {"kafka.bootstrap": "kafka:99999"},
        ("kafka.bootstrap", "'kafka:99999'"),
    ),
    (
        rules.brokers_are_host_and_port,
        {"kafka.bootstrap": "SSL://kafka:9092"},
        ("kafka.bootstrap", "host:port"),
    ),
    (
        rules.security_options_fit_together,
        {"kafka.options": {"sasl.username": "u"}},
        ("sasl.username", "security.protocol=SASL_SSL"),
    ),
    (
        rules.security_options_fit_together,
        {"kafka.options": {"ssl.cipher.suites": "x"}},
        ("ssl.cipher.suites", "security.protocol=SSL"),
    ),
    (
        rules.security_options_fit_together,
        {"kafka.options": {"security.protocol": "SASL_SSL"}},
        ("security.protocol", "sasl.mechanism=SCRAM-SHA-512"),
    ),
    (
        rules.oauth_options_are_complete,
        {"kafka.options": {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}},
        (
            "sasl.oauthbearer.client.secret",
            "kafka.oauth_client_secret_file",
            "kafka.msk_iam_region",
        ),
    ),
    (
        rules.oauth_options_are_complete,
        {"kafka.options": {**OIDC, "security.protocol": "SASL_PLAINTEXT"}},
        ("without TLS", "security.protocol=SASL_SSL"),
    ),
    (
        rules.oauth_options_are_complete,
        {"kafka.options": {**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://id.example/t"}},
        ("https://", "https.ca.location"),
    ),
    (
        rules.oauth_options_are_complete,
        {"kafka.options": {**OIDC, "sasl.mechanism": "PLAIN"}},
        ("sasl.oauthbearer.", "sasl.mechanism is not OAUTHBEARER"),
    ),
    (
        rules.oauth_options_are_complete,
        {"kafka.options": OIDC, "kafka.msk_iam_region": "eu-central-1"},
        ("kafka.msk_iam_region", "keep one"),
    ),
    (
        rules.oauth_options_are_complete,
        {"kafka.options": {"sasl.mechanism": "PLAIN"}, "kafka.msk_iam_region": "eu-central-1"},
        ("kafka.msk_iam_region", "OAUTHBEARER"),
    ),
    (rules.tokens_are_long_enough, {"auth.tokens": "t" * 15}, ("auth.tokens", "keygen")),
    (
        rules.tokens_are_long_enough,
        {"auth.tokens": "ü" * 16},
        ("auth.tokens", "ASCII"),
    ),
    (
        rules.handle_keys_are_long_enough,
        {"handle.key": f"{'k' * 16},{'k' * 15}"},
        ("handle.key", "16 bytes", "keygen"),
    ),
    (
        rules.doors_do_not_share_a_port,
        {"http.port": 8341},
        ("http.port", "admin.port", "8340"),
    ),
    (
        rules.socket_path_fits,
        {"http.socket": "/" + "s" * 107},
        ("http.socket", "107", "/run/halfhitch.sock"),
    ),
    (
        rules.hosts_are_header_values,
        {"http.hosts": "http://shop"},
        ("http.hosts", "halfhitch.shop.svc:8340"),
    ),
    (
        rules.allowed_topics_are_patterns,
        {"topics.allow": "orders,two words"},
        ("topics.allow", "'two words'", "shop.*"),
    ),
    (
        rules.a_body_fits_into_a_batch,
        {"messages.bytes_max": 65_537, "owner.batch_bytes_max": 65_536},
        ("messages.bytes_max (65537)", "owner.batch_bytes_max (65536)", "at least 65537"),
    ),
    (
        rules.a_message_fits_into_a_transaction,
        {"messages.bytes_max": 1_025, "messages.transaction_bytes_max": 1_024},
        ("messages.bytes_max (1025)", "messages.transaction_bytes_max (1024)", "at least 1025"),
    ),
    (
        rules.a_group_has_no_more_than_all,
        {"limits.undecided_max": 20_000},
        ("limits.undecided_group_max (25000)", "limits.undecided_max (20000)", "10000"),
    ),
    (
        rules.requests_are_counted_where_callers_are_told_apart,
        {"limits.requests_s_identity_max": 100},
        ("limits.requests_s_identity_max", "auth.identities_file"),
    ),
    (
        rules.the_cache_holds_a_batch,
        {"owner.payload_cache_bytes": 3_999_999},
        ("owner.payload_cache_bytes", "owner.batch_bytes_max", "16000000"),
    ),
    (
        rules.the_horizon_outlasts_a_kafka_transaction,
        {"ledger.horizon_s": 60, "owner.transaction_timeout_ms": 60_000},
        ("ledger.horizon_s", "owner.transaction_timeout_ms", "120"),
    ),
    (
        rules.traces_can_be_told,
        {"tracing.endpoint": "collector:4318"},
        ("tracing.endpoint", "http://127.0.0.1:4318"),
    ),
    (
        rules.traces_can_be_told,
        {"tracing.endpoint": "http://127.0.0.1:4318", "audit.enabled": False},
        ("tracing.endpoint", "audit.enabled", "true"),
    ),
    (
        rules.the_watchdog_outlasts_a_kafka_transaction,
        {"owner.hung_call_s": 30, "owner.transaction_timeout_ms": 60_000},
        ("owner.hung_call_s", "owner.transaction_timeout_ms", "70"),
    ),
    (
        rules.the_callback_may_be_called,
        {"checks.url": "127.0.0.1:8080/checks"},
        ("checks.url", "http://127.0.0.1:8080/halfhitch/checks"),
    ),
    (
        rules.the_callback_may_be_called,
        {"checks.url": "http://10.1.2.3/checks"},
        ("checks.url", "10.1.2.3/32", "checks.url_networks"),
    ),
    (
        rules.the_callback_may_be_called,
        {"checks.url": "http://shop/", "checks.url_networks": "10.0.0.1/8"},
        ("checks.url_networks", "'10.0.0.1/8'", "10.0.0.0/8"),
    ),
    (
        rules.redis_url_can_be_read,
        {"redis.url": "redis:6379"},
        ("redis.url", "redis://:password@redis:6379/0"),
    ),
    (
        rules.redis_url_can_be_read,
        {"redis.url": "redis+sentinel://one:26379,two:26379"},
        ("redis.url", "redis+sentinel://host:26379/mymaster/0"),
    ),
    (
        rules.the_policies_can_be_read,
        {"checks.give_up_topics": "orders.*"},
        ("checks.give_up_topics", "orders.*=rollback"),
    ),
    (
        rules.the_policies_can_be_read,
        {"checks.give_up_topics": "orders.*=drop"},
        ("checks.give_up_topics", "park, rollback or commit"),
    ),
    (
        rules.the_callback_token_fits_a_header,
        {"checks.url_token": "two words"},
        ("checks.url_token", "keygen"),
    ),
    (
        rules.the_callback_token_travels_encrypted,
        {"checks.url": "http://shop.example/check", "checks.url_token": TOKEN},
        ("checks.url_encrypted_in_front",),
    ),
    (
        rules.kafka_is_named,
        {"kafka.bootstrap": None},
        ("kafka.bootstrap", "HALFHITCH_KAFKA_BOOTSTRAP", "127.0.0.1:9092"),
    ),
    (
        rules.the_rocketmq_door_can_be_opened,
        {"rocketmq.access_keys": "shop:long-enough-secret,points"},
        ("rocketmq.access_keys", "access:secret", "keygen"),
    ),
    (
        rules.the_rocketmq_door_can_be_opened,
        {"rocketmq.advertised": "http://shop"},
        ("rocketmq.advertised", "halfhitch.shop.svc:9876"),
    ),
    (
        rules.the_rocketmq_door_can_be_opened,
        {"rocketmq.tls_required": True},
        ("rocketmq.tls_required", "rocketmq.tls_cert"),
    ),
    (  # plain TCP on the same port would need none
        rules.the_rocketmq_door_can_be_opened,
        {**CERTIFICATES_REQUIRED, "rocketmq.tls_required": False},
        ("rocketmq.tls_clients is required", "rocketmq.tls_required to true"),
    ),
    *(
        (rules.tls_settings_fit_together, change, words)
        for door in ("http", "admin", "rocketmq")
        for change, words in (
            ({f"{door}.tls_key": "k.pem"}, (f"{door}.tls_key", f"{door}.tls_cert")),
            ({f"{door}.tls_client_ca": "ca.pem"}, (f"{door}.tls_client_ca", f"{door}.tls_cert")),
            (
                {f"{door}.tls_cert": "c.pem", f"{door}.tls_client_ca": "ca.pem"},
                (f"{door}.tls_clients is off", "required"),
            ),
            (
                {f"{door}.tls_cert": "c.pem", f"{door}.tls_clients": "wanted"},
                (f"{door}.tls_clients is wanted", f"{door}.tls_client_ca"),
            ),
        )
    ),
    *(
        (
            rules.secrets_travel_encrypted,
            {"auth.tokens": TOKEN, f"{door}.host": "0.0.0.0"},
            (f"{door}.host", f"{door}.tls_cert", f"{door}.encrypted_in_front"),
        )
        for door in ("http", "admin")
    ),
    (  # what is signed there can be read, and sent again
        rules.secrets_travel_encrypted,
        {**ROCKETMQ_BEYOND, "rocketmq.tls_cert": "c.pem"},
        ("rocketmq.tls_required to true", "rocketmq.encrypted_in_front"),
    ),
    (rules.handles_are_signed, {"handle.key": None}, ("handle.key", "keygen")),
    (
        rules.open_doors_have_a_lock,
        {"http.host": "0.0.0.0"},
        ("http.host", "auth.tokens", "127.0.0.1"),
    ),
    (
        rules.open_doors_have_a_lock,
        {"admin.host": "10.1.2.3"},
        ("admin.host", "auth.tokens", "127.0.0.1"),
    ),
    (
        rules.open_doors_have_a_lock,
        {"rocketmq.enabled": True, "rocketmq.host": "0.0.0.0", "auth.tokens": TOKEN},
        ("rocketmq.host", "rocketmq.access_keys", "127.0.0.1"),
    ),
    (
        rules.identities_can_be_read,
        {"auth.identities_file": "/no/such/identities.toml"},
        ("auth.identities_file", "No such file"),
    ),
    (
        rules.identities_can_be_read,
        {**WITH_IDENTITIES, "rocketmq.access_keys": "other-key:secret-secret"},
        ("auth.identities_file", "'shop-key'", "rocketmq.access_key_file"),
    ),
    (
        rules.identities_can_be_read,
        {"auth.identities_file": CERTIFIED},
        ("'orders'", "http.tls_client_ca", "http.tls_clients=wanted"),
    ),
    (
        rules.open_doors_have_a_lock,
        {"auth.identities_file": KEYLESS, "rocketmq.enabled": True},
        ("auth.identities_file", "rocketmq.access_keys", "rocketmq.enabled to false"),
    ),
    (  # the RocketMQ door asks for no token: it would be an open door beside locked ones
        rules.open_doors_have_a_lock,
        {"rocketmq.enabled": True, "auth.tokens": TOKEN},
        ("auth.tokens", "rocketmq.access_keys", "rocketmq.enabled to false"),
    ),
]

#: Just on the good side of the rules with a bound.
FINE: list[Mapping[str, object]] = [
    {"kafka.bootstrap": "[::1]:1, kafka-1.shop.svc:65535"},
    {
        "auth.identities_file": IDENTITIES,
        "http.host": "0.0.0.0",
        "http.encrypted_in_front": True,
    },
    {
        "auth.tokens": TOKEN,
        "http.host": "0.0.0.0",
        "http.tls_cert": "c.pem",
        "admin.host": "::",
        "admin.encrypted_in_front": True,
    },
    {"http.tls_cert": "c.pem", "http.tls_client_ca": "ca.pem", "http.tls_clients": "required"},
    {
        "auth.identities_file": CERTIFIED,
        "http.tls_cert": "c.pem",
        "http.tls_client_ca": "ca.pem",
        "http.tls_clients": "wanted",
    },
    {**ROCKETMQ_BEYOND, "rocketmq.tls_cert": "c.pem", "rocketmq.tls_required": True},
    CERTIFICATES_REQUIRED,
    {**WITH_IDENTITIES, "rocketmq.access_keys": "shop-key:secret-secret"},
    {"http.host": "localhost", "admin.host": "127.0.0.2"},
    {"http.host": "::1"},
    {"handle.key": "k" * 16},
    {"handle.key": "k" * 128},  # openssl rand -hex 64
    {"rocketmq.host": "0.0.0.0"},
    {"rocketmq.enabled": True, "rocketmq.port": 0},
    {"rocketmq.enabled": True, "auth.tokens": TOKEN, "rocketmq.access_keys": "a:12345678"},
    {"rocketmq.enabled": False, "auth.tokens": TOKEN},
    {**ROCKETMQ_BEYOND, "rocketmq.encrypted_in_front": True},
    {"rocketmq.advertised": "[fd00::1]:9876"},
    {"rocketmq.advertised": "halfhitch"},
    {"rocketmq.tls_cert": "cert.pem", "rocketmq.tls_required": True},
    {"http.port": 0, "admin.port": 0},
    {"http.port": 8341, "http.host": "127.0.0.2"},
    {"http.socket": "/" + "s" * 106},
    {"http.hosts": "halfhitch.shop.svc:8340,[fd00::1]:1,shop"},
    {"topics.allow": "shop.*,orders-?,[ab]x"},
    {"messages.bytes_max": 65_536, "owner.batch_bytes_max": 65_536},
    {"owner.payload_cache_bytes": 4_000_000},
    {"ledger.horizon_s": 61, "owner.transaction_timeout_ms": 60_000, "owner.hung_call_s": 70},
    {"owner.transaction_timeout_ms": 60_000, "owner.hung_call_s": 0},
    {"kafka.options": {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}},
    {"kafka.options": {"security.protocol": "SSL", "ssl.cipher.suites": "x"}},
    {"kafka.options": OIDC},
    {
        "kafka.bootstrap": "127.0.0.1:9092,[::1]:9092",
        "kafka.options": {**OIDC, "security.protocol": "SASL_PLAINTEXT"},
    },
    {"kafka.options": {**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/t"}},
    {"kafka.msk_iam_region": "eu-central-1"},
    {"checks.url": "http://localhost:1/?a=b", "checks.url_token": "t"},
    {"checks.url": "https://[fd00::1]/", "checks.url_networks": "fd00::/8,10.0.0.0/8"},
]


@pytest.mark.parametrize(
    ("rule", "change", "words"),
    BROKEN,
    ids=[f"{r.__name__}-{n}" for n, (r, _, _) in enumerate(BROKEN)],
)
def test_a_broken_rule_is_one_sentence_with_the_names_and_a_good_value(
    rule: Callable[[Settings], str | None], change: Mapping[str, object], words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load({**GOOD, **change})
    sentence = caught.value.message
    assert all(word in sentence for word in words), sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    # It was this rule, and not another one, that spoke.
    settings = _unchecked({**GOOD, **change})
    assert rule(settings) == sentence


def test_every_rule_has_a_failing_example() -> None:
    every = {*rules.RULES, *rules.TOOL_RULES, *rules.SERVE_RULES}
    assert every == {rule for rule, _, _ in BROKEN}


@pytest.mark.parametrize("change", FINE, ids=str)
def test_values_at_the_edge_are_taken(change: Mapping[str, object]) -> None:
    load({**GOOD, **change})


def test_tools_need_no_handle_key_and_clients_no_kafka() -> None:
    load({"kafka.bootstrap": "kafka:9092", "http.host": "0.0.0.0"}, purpose=Purpose.TOOL)
    load({}, purpose=Purpose.CLIENT)
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap"):
        load({}, purpose=Purpose.TOOL)


def test_a_token_file_counts_as_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(TOKEN + "\n")
    beyond = {"http.host": "0.0.0.0", "http.encrypted_in_front": True}
    load({**GOOD, **beyond, "auth.token_file": path})


def _unchecked(flags: Mapping[str, object]) -> Settings:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "check", lambda *_: None)
        return load(flags)
