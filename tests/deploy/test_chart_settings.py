"""Values that the charts took and with which no pod started, or that laid a secret bare."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.chart_values import CHART, values
from harness.charts import merged, parent_chart, rendered, told

if TYPE_CHECKING:
    from pathlib import Path

    from harness.charts import Object

_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_PASSWORD: Object = {"secrets": {"kafkaPassword": {"secretName": "kafka"}}}
_CLIENT_SECRET: Object = {"secrets": {"kafkaOauthClientSecret": {"secretName": "kafka"}}}
_TOKEN: Object = {"secrets": {"checksUrlToken": {"secretName": "halfhitch"}}}
_EARLY: Object = {"topics": {"serviceAccountName": "early"}}
_INJECTION: Object = {"kubeVersion": "1.36", "injection": {"policy": {"enabled": True}}}


def options(**given: object) -> Object:
    return {"settings": {"kafka": {"options": {n.replace("_", "."): v for n, v in given.items()}}}}


def checks(url: str, **more: object) -> Object:
    return {"settings": {"checks": {"url": url, **more}}}


def sasl(mechanism: str, **more: object) -> Object:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **more}
    return {"settings": {"kafka": {"options": given}}}


def oidc(endpoint: str) -> Object:
    more = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "shop"}
    return merged(_CLIENT_SECRET, sasl("OAUTHBEARER", **more, **{_ENDPOINT: endpoint}))


_FILES = [
    (options(ssl_crl_location="/etc/crl.pem", security_protocol="SSL"), "use secrets.kafkaCrl"),
    (options(ssl_keystore_location="/a.p12"), "use secrets.kafkaCertificate and secrets.kafkaKey"),
    (options(sasl_kerberos_keytab="/a.keytab"), "use another sasl.mechanism, for Kerberos has"),
    (options(https_ca_location="/etc/ca.pem"), "use secrets.kafkaOauthCa"),
    ({"extraEnv": [{"name": "HALFHITCH_CONFIG", "value": "/a"}]}, "no pod has it mounted: put"),
]
_SIGN_IN = [
    (
        merged(
            {"settings": {"kafka": {"msk_iam_region": "eu-west-1"}}},
            options(security_protocol="SSL"),
        ),
        "settings.kafka.msk_iam_region is set, and signs in by SASL, which settings.kafka.options",
    ),
    (
        merged(
            {"settings": {"kafka": {"msk_iam_region": "eu-west-1"}}},
            options(sasl_mechanism="PLAIN", sasl_username="a"),
            _PASSWORD,
        ),
        "settings.kafka.msk_iam_region is set, but sasl.mechanism is not OAUTHBEARER: set it in",
    ),
    (
        merged(_PASSWORD, options(security_protocol="SASL_SSL")),
        "to SASL_SSL, and no sasl.mechanism: add for example sasl.mechanism: SCRAM-SHA-512",
    ),
    (merged(_PASSWORD, sasl("PLAIN")), "PLAIN, and no sasl.username: add it"),
    (sasl("SCRAM-SHA-512", **{"sasl.username": "a"}), "set secrets.kafkaPassword.secretName"),
    (
        merged(_CLIENT_SECRET, _PASSWORD, sasl("PLAIN", **{"sasl.username": "a"})),
        "secrets.kafkaOauthClientSecret is set, and would go unheard with sasl.mechanism PLAIN",
    ),
    (
        merged(_PASSWORD, oidc("https://login.example.com/token")),
        "secrets.kafkaPassword is set, and would go unheard with sasl.mechanism OAUTHBEARER",
    ),
    (merged(_CLIENT_SECRET, sasl("OAUTHBEARER")), "without sasl.oauthbearer.method: give"),
    (
        options(sasl_username="a"),
        "has sasl.username, which security.protocol PLAINTEXT ignores: add security.protocol: SAS",
    ),
    (options(ssl_cipher_suites="a"), "PLAINTEXT ignores: add security.protocol: SSL"),
    (
        options(ssl_endpoint_identification_algorithm="none", security_protocol="SSL"),
        "if that is meant, set settings.kafka.verify_host_names to false",
    ),
    (options(client_rack=""), "has client.rack with nothing in it: leave it out"),
    (options(client_rack="a\n"), "has client.rack, whose value begins or ends with a blank"),
    (oidc("http://login.example.com/token"), "begin it with https://"),
    (
        options(security_protocol="SLS"),
        'to "SLS": Kafka\'s client takes PLAINTEXT, SSL, SASL_PLAIN',
    ),
    (options(compression_type="best"), "takes none, gzip, snappy, lz4 or zstd"),
    (options(batch_size=0), 'batch.size to "0": Kafka\'s client takes a whole number from 1 to 21'),
    (options(batch_size="1e6"), "a whole number from 1"),
    (options(socket_nagle_disable="yes"), "takes true, false, 1, 0, t or f"),
    (sasl("GSSAPI"), "for Kerberos has files that no chart mounts: use SCRAM-SHA-512"),
]
_ADDRESSES = [
    (checks("ftp://c.example/"), "settings.checks.url is no address that begins with http://"),
    (checks("https://"), "settings.checks.url is no address"),
    (checks("https://c.example:0/"), "settings.checks.url is no address"),
    (checks("http://10.1.2.3/"), "add 10.1.2.3/32 there"),
    (checks("http://10.1.2.3/", url_networks=["10.2.0.0/16"]), "add 10.1.2.3/32 there"),
    (checks("http://169.254.169.254/"), "are never called: name another"),
    (checks("https://c/", url_networks=["10.1.2.3/8"]), 'has "10.1.2.3/8", which is no network'),
    (checks("https://c/", url_networks=["fe80::/10"]), "are never called: leave it out"),
    (merged(_TOKEN, checks("http://c.example/")), "settings.checks.url_encrypted_in_front to true"),
    ({"settings": {"tracing": {"endpoint": "ftp://a"}}}, "settings.tracing.endpoint is no address"),
    (
        {"settings": {"tracing": {"endpoint": "http://a:4318"}, "audit": {"enabled": False}}},
        "settings.tracing.endpoint needs settings.audit.enabled",
    ),
    (oidc("ftp://login.example.com/token"), f"{_ENDPOINT} is no address that begins"),
]
_WITH_A_PASSWORD = [
    (checks("https://u:hunter2@c.example/"), "put a token into secrets.checksUrlToken"),
    ({"settings": {"tracing": {"endpoint": "http://u:hunter2@a"}}}, "a collector that asks for no"),
    (oidc("https://u:hunter2@a/token"), "put the secret into secrets.kafkaOauthClientSecret"),
    ({"settings": {"redis": {"url": "redis://:hunter2@r"}}}, "use secrets.redisUrl"),
]
_OTHERS = [
    ({"settings": {"topics": {"allow": []}}}, "/settings/topics/allow"),
    ({"settings": {"topics": {"allow": ["a/b"]}}}, 'topics.allow has "a/b", which is no pattern'),
    ({"settings": {"checks": {"url_groups": ["a,,b"]}}}, "nothing stands between two commas"),
    ({"settings": {"checks": {"give_up_topics": ["a"]}}}, "write it like orders.*=rollback"),
    ({"settings": {"rocketmq": {"advertised": "a:0"}}}, "write for example halfhitch.shop.svc:987"),
    ({"settings": {"topics": {"prefix": "a b"}}}, "/settings/topics/prefix"),
    (
        {"settings": {"messages": {"bytes_max": 5_000_000}}},
        "settings.messages.bytes_max (5000000) is larger than settings.owner.batch_bytes_max (40",
    ),
    (
        {"settings": {"ledger": {"horizon_s": 60}, "owner": {"transaction_timeout_ms": 60_000}}},
        "120 or more",
    ),
    ({"settings": {"owner": {"hung_call_s": 20}}}, "set it to 25 or more, or to 0 (never)"),
    ({"settings": {"limits": {"requests_s_identity_max": 9}}}, "set secrets.identities.secretName"),
    (
        {"secrets": {"authTokens": {"key": "handle-key"}}},
        "secrets.authTokens and secrets.handleKey are both the key handle-key of the secret half",
    ),
    (
        {"metrics": {"token": {"secretName": "halfhitch", "key": "handle-key"}}},
        "metrics.token and secrets.handleKey are both",
    ),
    (options(ssl_certificate_pem="a"), "use secrets.kafkaCertificate, which brings the key along"),
    (
        merged(options(security_protocol="SSL"), options(ssl_ca_pem="-----BEGIN CERTIFICATE-----")),
        "which is no certificate in PEM: it has lines of its own",
    ),
    ({"doors": {"bind": "10.1.2.3"}}, "doors.bind is 10.1.2.3, which no pod has"),
    ({"doors": {"bind": "abc"}}, "set it to 0.0.0.0 or ::"),
    (
        {"resources": {"requests": {"memory": "1Gi"}}},
        "resources.requests.memory is 1Gi, more than resources.limits.memory, which is 512Mi",
    ),
    ({"resources": {"limits": {"cpu": 0.2}}}, "requests.cpu is 250m, more than"),
    (
        {"resources": {"requests": {"memory": 0}, "limits": {"memory": "512m"}}},
        "resources.limits.memory is 512m, which is too little for a sidecar or coordinator",
    ),
    (
        {"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": "0m"}}},
        "resources.requests.cpu is not set",
    ),
    ({"secrets": {"redisUrl": {"key": ".."}}}, "/secrets/redisUrl/key"),
    ({"metrics": {"interval": "30s1m"}}, "/metrics/interval"),
    ({"terminationGracePeriodSeconds": 3_000_000_000}, "/terminationGracePeriodSeconds"),
    ({"podDisruptionBudget": {"maxUnavailable": "100%"}}, "so that all 3 instances could be away"),
    ({"podDisruptionBudget": {"maxUnavailable": "70%"}}, "so that all 3 instances could be away"),
    ({"podDisruptionBudget": {"maxUnavailable": 3}}, "is 3, so that all 3 instances"),
]


@pytest.mark.parametrize(
    ("change", "says"), [*_FILES, *_SIGN_IN, *_ADDRESSES, *_WITH_A_PASSWORD, *_OTHERS]
)
def test_values_were_taken_with_which_no_pod_starts(change: Object, says: str) -> None:
    said = told(CHART, merged(values("mesh"), _EARLY, change))
    assert says in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rocketmq": {"tls_required": True}}, "annotation halfhitch/rocketmq.tls_required beside"),
        ({"http": {"tls_clients": "required"}}, "injection.settings.http.tls_clients is required"),
        ({"kafka": {"options": {"client.rack": ""}}}, "injection.settings.kafka.options has clien"),
        ({"checks": {"url": "ftp://a"}}, "injection.settings.checks.url is no address"),
        ({"limits": {"requests_s_identity_max": 9}}, "requests_s_identity_max to 0"),
    ],
)
def test_settings_were_taken_with_which_no_injected_sidecar_starts(
    given: Object, says: str
) -> None:
    change = merged(_INJECTION, {"injection": {"settings": given}})
    assert says in told(CHART, merged(values("mesh"), change))
    assert told(CHART, merged(values("mesh"), _INJECTION)) == ""


def test_injected_sidecars_asked_for_more_memory_than_they_may_have() -> None:
    asked: Object = {"injection": {"resources": {"requests": {"memory": "1Gi"}}}}
    said = told(CHART, merged(values("mesh"), _INJECTION, asked))
    assert "injection.resources.requests.memory is 1Gi, more than" in said


def test_what_coordinators_count_by_identities_kept_injected_sidecars_from_starting() -> None:
    counted: Object = {
        "secrets": {"identities": {"secretName": "ids"}},
        "settings": {"limits": {"requests_s_identity_max": 9}},
    }
    none: Object = {"injection": {"settings": {"limits": {"requests_s_identity_max": 0}}}}
    said = told(CHART, merged(values("mesh"), _INJECTION, counted))
    assert "settings.limits.requests_s_identity_max counts for identities, and injected" in said
    assert told(CHART, merged(values("mesh"), counted)) == ""
    assert told(CHART, merged(values("mesh"), _INJECTION, counted, none)) == ""


def test_the_library_took_settings_with_which_no_sidecar_starts(tmp_path: Path) -> None:
    parent = parent_chart(tmp_path)
    for change, says in (*_FILES[:2], _SIGN_IN[2], _ADDRESSES[0], _WITH_A_PASSWORD[0]):
        assert says in told(parent, {"halfhitch-sidecar": change})


def test_revoked_certificates_and_an_identity_providers_authority_can_be_given() -> None:
    """Both were options that name a file, and no pod had it."""
    change = merged(
        oidc("https://login.example.com/token"),
        {"secrets": {"kafkaCrl": {"secretName": "a"}, "kafkaOauthCa": {"secretName": "b"}}},
    )
    text = json.dumps(rendered(CHART, merged(values("mesh"), change)))
    for name, file in (("ssl.crl", "ssl-crl-location"), ("https.ca", "https-ca-location")):
        assert f'{name}.location\\\\\\"' in text or f"{name}.location" in text
        assert f"/etc/halfhitch/secrets/{file}" in text
        assert f'"path": "{file}"' in text


def test_an_empty_list_became_a_list_of_nothing() -> None:
    change: Object = {"settings": {"http": {"hosts": []}, "checks": {"url_networks": []}}}
    text = json.dumps(rendered(CHART, merged(values("mesh"), change)))
    assert "HALFHITCH_HTTP_HOSTS" not in text
    assert "HALFHITCH_CHECKS_URL_NETWORKS" not in text


@pytest.mark.parametrize(
    "change",
    [
        checks("http://10.1.2.3:80/", url_networks=["10.0.0.0/8", "fd00::/8"]),
        checks("http://[fd00::1]/", url_networks=["10.0.0.0/8", "fd00::/8"]),
        checks("http://[::ffff:127.0.0.1]/a@b?c"),
        merged(_TOKEN, checks("http://127.0.0.1:80/")),
        merged(_TOKEN, checks("http://c.example/", url_encrypted_in_front=True)),
        {"settings": {"http": {"hosts": ["a", "b:80"]}}, "doors": {"admin": {"exposed": False}}},
        {"settings": {"checks": {"give_up_topics": ["orders.*=rollback", "a = park"]}}},
        {"settings": {"rocketmq": {"advertised": "[::1]:9876"}}},
        merged(_PASSWORD, sasl("scram-sha-256", **{"sasl.username": "a"})),
        options(batch_size=2_000_000, socket_nagle_disable=True, compression_level="-1"),
        {"podDisruptionBudget": {"maxUnavailable": "50%"}},
        {"resources": {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": 1}}},
        {"resources": {"requests": {"cpu": None, "memory": "0.5Gi"}, "limits": None}},
        {"metrics": {"interval": "1m30s"}},
        {"podDisruptionBudget": {"maxUnavailable": 1}, "coordinators": {"replicas": 1}},
        {"metrics": {"token": {"secretName": "halfhitch", "key": "auth-tokens"}}},
    ],
)
def test_what_is_in_order_is_taken(change: Object) -> None:
    assert told(CHART, merged(values("mesh"), change)) == ""
