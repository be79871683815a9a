"""Values of the charts at random: good ones, odd ones and wrong ones.

Owns `Walk`. What values there are and of which kind the charts' schemas say; texts that mean
something are picked from the tables here, so that a walk comes further than to a schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from halfhitch.config.kafka_options import FILES, HIDDEN, NAMES
from halfhitch.config.kafka_values import NUMBERS, WORDS
from harness.chart_values import CHANGES
from harness.charts import CHARTS, merged

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from harness.charts import Object

#: Stands for a password: it may come out nowhere.
PASSWORD: Final = "hunter2"
_ODD: Final = ("", " ", " a", "a ", "a\nb", "a\u200bb", "a,b", ",", "a,,b", "*", "true", "1", "ä")
_HOSTS: Final = (
    *("collector", "c.example.com", "127.0.0.1", "localhost", "[::1]", "10.1.2.3", "[fd00::1]"),
    *("169.254.169.254", "[fe80::1]", "[::ffff:127.0.0.1]", "[::ffff:10.1.2.3]", "0.0.0.0"),
    *("[::1::]", "[1:2]", "a..b", "-a", "a_b", "", "a b", "ä", "u:p@c"),
    *("224.0.0.1", "255.255.255.255", "999.1.1.1", "10.1.2", "127.9.9.9", "a" * 64, "C.example."),
)
_URLS: Final = tuple(
    f"{scheme}{host}{rest}"
    for scheme in ("http://", "https://", "ftp://", "HTTP://", "", "//")
    for host in (*_HOSTS, f"u:{PASSWORD}@c", f"{PASSWORD}@c")
    for rest in ("", ":4318", ":0", ":65536", ":", "/a", "/a?b=c", "?q", "#f", ":80/a@b", ":http")
)
_NETWORKS: Final = (
    *("10.0.0.0/8", "10.1.2.3/32", "10.1.2.3", "10.1.2.3/8", "0.0.0.0/0", "::/0", "fd00::/8"),
    *("fd00::1/8", "fd00::1", "10.0.0.0/33", "10.0.0.0/", "10/8", "169.254.0.0/16", "fe80::/10"),
    *(
        "fe80::/9",
        "224.0.0.0/4",
        "ff00::/8",
        "::ffff:10.0.0.0/104",
        "a",
        "1::2::3/64",
        "10.0.0.0/08",
    ),
)
#: By the end of a value's path.
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "checks.url": _URLS,
    "tracing.endpoint": _URLS,
    "checks.url_networks": _NETWORKS,
    "checks.url_groups": ("shop", "shop.*", *_ODD),
    "checks.give_up_topics": (
        *("orders.*=park", "a=b=commit", "=park", "a=", "orders", "a = rollback", "a=Park", *_ODD),
    ),
    "topics.allow": ("orders", "points.*", "a[b]", "a/b", "a b", "a!b", *_ODD),
    "topics.prefix": ("", "shop.", "a b", "x" * 201),
    "http.hosts": (*_HOSTS, "a:80", "a:", "a:123456", "http://a", *_ODD),
    "rocketmq.advertised": (*_HOSTS, "a:80", "a:0", "a:65535", "a:65536", "a:00080", *_ODD),
    "kafka.bootstrap": (
        *("kafka:9092", "a:1,b:2", "a:1, b:2", "[::1]:9092", "127.0.0.1:9092", "localhost:9092"),
        *("a", "a:0", "a:65536", "", ",", "a:1,", "u:p@a:1"),
    ),
    "kafka.msk_iam_region": ("eu-west-1", "", " "),
    "client.ca_file": ("/etc/ca.pem", ""),
    "doors.bind": ("0.0.0.0", "::", "127.0.0.1", "::1", "10.1.2.3", "abc", "999.9.9.9", ":::"),
    "key": ("handle-key", "auth-tokens", "token", "tls.key", "."),
    "metrics.interval": ("30s", "1m30s", "30s1m", "5ms", "0"),
}
_OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "sasl.username": ("shop", "a,b=c"),
    "sasl.oauthbearer.method": ("oidc", "OIDC", "default"),
    "sasl.oauthbearer.token.endpoint.url": _URLS,
    "ssl.endpoint.identification.algorithm": ("https", "none", "HTTPS"),
    "ssl.ca.pem": ("a", "-----BEGIN"),
    "ssl.certificate.pem": ("a", "-----BEGIN"),
    "ssl.cipher.suites": ("ECDHE-RSA-AES256-GCM-SHA384",),
    "ssl.curves.list": ("P-256",),
    "ssl.sigalgs.list": ("RSA+SHA256",),
    "client.rack": ("a", "eu-west-1a", 1, True),
}
#: Values that belong together: without them a walk would only be refused.
_TOGETHER: Final[tuple[Object, ...]] = (
    *CHANGES.values(),
    *(
        {
            "secrets": {"kafkaPassword": {"secretName": "kafka"}},
            "settings": {
                "kafka": {
                    "options": {
                        "security.protocol": protocol,
                        "sasl.mechanism": "SCRAM-SHA-512",
                        "sasl.username": "shop",
                    }
                }
            },
        }
        for protocol in ("SASL_SSL", "SASL_PLAINTEXT")
    ),
    {
        "secrets": {
            "kafkaOauthClientSecret": {"secretName": "kafka"},
            "kafkaOauthCa": {"secretName": "ca"},
        },
        "settings": {
            "kafka": {
                "options": {
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.method": "oidc",
                    "sasl.oauthbearer.client.id": "shop",
                    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
                }
            }
        },
    },
    {
        "settings": {"kafka": {"msk_iam_region": "eu-west-1"}},
        "topics": {"serviceAccountName": "early"},
    },
    {"secrets": {"kafkaCrl": {"secretName": "ca"}, "kafkaCa": {"secretName": "ca"}}},
    {
        "secrets": {"checksUrlToken": {"secretName": "halfhitch"}},
        "settings": {"checks": {"url": "https://c.example.com/"}},
    },
    {"settings": {"limits": {"requests_s_identity_max": 5}}},
    {"kubeVersion": "1.36", "injection": {"policy": {"enabled": True}}},
    {
        "kubeVersion": "1.36",
        "injection": {"policy": {"enabled": True}},
        "coordinators": {"enabled": False},
    },
)
#: What says nothing of how a program starts, or is any object at all.
_LEFT_OUT: Final = ("extraObjects", "global", "kubeVersion", "affinity", "tolerations", "enabled")
_RULED: Final = (
    *("kafka.options", "kafka.options", "url", "url_networks", "endpoint", "hosts", "advertised"),
    *("msk_iam_region", "give_up_topics", "allow", "bytes_max", "transaction_timeout_ms"),
    *(
        "horizon_s",
        "hung_call_s",
        "secretName",
        "clients",
        "encryptedInFront",
        "encrypted_in_front",
    ),
    *("undecided_group_max", "undecided_max", "bind", "port", "verify_host_names", "key"),
)


class Walk:
    """Through the values of one chart, with one source of randomness."""

    def __init__(self, chart: str, rng: random.Random) -> None:
        self._rng = rng
        schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
        leaves = list(_leaves("", schema))
        # Settings of injected sidecars are the same ones: half of the steps would be theirs.
        self._own = [one for one in leaves if not one[0].startswith("injection.settings.")]
        self._injected = [one for one in leaves if one[0].startswith("injection.settings.")]
        self._tops = set(schema["properties"])

    def values(self) -> Object:
        """Some changes on top of each other, to be laid upon values that are in order."""
        rng, layers = self._rng, []
        for _ in range(rng.choice((0, 1, 1, 2))):
            together = rng.choice(_TOGETHER)
            if set(together) <= self._tops:
                layers.append(together)
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            is_injected = bool(self._injected) and rng.random() < 0.15
            places = self._injected if is_injected else self._own
            if rng.random() < 0.4:  # where most of the rules are
                places = [one for one in places if one[0].endswith(_RULED)]
            path, schema = rng.choice(places)
            layers.append(_at(path, self._value(path, schema)))
        return merged(*layers)

    def _value(self, path: str, schema: Object) -> Any:
        rng = self._rng
        kinds = schema.get("type", "string")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if rng.random() < 0.03:
            return None
        if path.endswith(".kafka.options"):
            return {
                name: self._option(name)
                for name in rng.sample(sorted(NAMES), rng.choice((1, 1, 2)))
            }
        if path.endswith("extraEnv"):
            return [{"name": rng.choice(("A", "HALFHITCH_CONFIG", "HALFHITCH_X")), "value": "1"}]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in ("integer", "number"):
            return self._number(schema)
        if kind == "array":
            return [self._text(path) for _ in range(rng.choice((0, 1, 1, 2)))]
        if kind == "object":
            return {}
        return self._text(path)

    def _number(self, schema: Object) -> int | float:
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        most = schema.get("maximum", least + 1_000_000)
        some = int(least + (most - least) * self._rng.random() ** 8)
        return self._rng.choice((least, most, some, some, most + 1, 1, 1_000_000))

    def _text(self, path: str) -> str:
        if path.endswith("secretName"):
            return self._rng.choice(("", "halfhitch", "other"))
        for end, texts in _TEXTS.items():
            if f".{path}".endswith(f".{end}"):
                return self._rng.choice(texts)
        return self._rng.choice(("a", "a", *_ODD))

    def _option(self, name: str) -> Any:
        rng = self._rng
        if rng.random() < 0.1:
            return rng.choice(("", " ", None, "a\nb", 7, True))
        if name in HIDDEN:
            return PASSWORD
        if name in FILES:
            return rng.choice(("/etc/ssl/certs/ca-certificates.crt", "/nowhere", "probe"))
        if name in _OPTIONS:
            return rng.choice(_OPTIONS[name])
        if name in WORDS:
            word = rng.choice(WORDS[name])
            return rng.choice((word, word, word.lower(), word.upper(), "none of these"))
        if name in NUMBERS:
            least, most = NUMBERS[name]
            number = rng.choice((least - 1, least, (least + most) // 2, most, most + 1))
            return rng.choice((number, number, str(number), "1e6", "08"))
        return "a"


def _leaves(path: str, schema: Object) -> Iterator[tuple[str, Object]]:
    for name, member in schema.get("properties", {}).items():
        at = f"{path}.{name}".lstrip(".")
        if name in _LEFT_OUT:
            continue
        if member.get("properties"):
            yield from _leaves(at, member)
        else:
            yield at, member


def _at(path: str, value: Any) -> Object:
    found = value
    names = path.split(".")
    # An option of Kafka's client has dots of its own, and comes as a whole.
    for name in reversed(names):
        found = {name: found}
    return dict(found)
