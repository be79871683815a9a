"""Pods that want a sidecar, and what `halfhitch inject` and the chart's policy make of them.

Owns `PODS` and `ANNOTATIONS`, which both are asked, `chart` and `inject` for the same settings, and
`comparable`: a pod without what may differ, such as how the texts of equal settings are written.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

from halfhitch import __version__
from halfhitch.config import SETTINGS, Purpose, load
from halfhitch.config.kafka_options import pairs_of
from halfhitch_cli.pod_settings import Given
from halfhitch_cli.sidecar_pod import Sidecar
from harness.admission import admitted
from harness.charts import CHARTS, merged, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.charts import Object

LABEL: Final = "halfhitch/inject"
_BY_ENV: Final = {setting.env: setting for setting in SETTINGS}

#: What the chart and inject are given alike: values, and flags.
VALUES: Final[Object] = {
    "kubeVersion": "1.36",
    "coordinators": {"enabled": False},
    "injection": {
        "policy": {"enabled": True},
        "settings": {"checks": {"interval_s": 30.5}, "topics": {"allow": ["orders", "points.*"]}},
    },
    "settings": {
        "kafka": {
            "bootstrap": "kafka:9092",
            "options": {"security.protocol": "SSL", "compression.type": "zstd"},
        },
    },
    "secrets": {
        "handleKey": {"secretName": "halfhitch"},
        "authTokens": {"secretName": "tokens"},
        "kafkaCa": {"secretName": "kafka-ca"},
    },
}
FLAGS: Final[Mapping[str, object]] = {
    "kafka.bootstrap": "kafka:9092",
    "kafka.options": [
        "security.protocol=SSL,compression.type=zstd",
        "ssl.ca.location=secret:kafka-ca/ca.crt",
    ],
    "handle.key_file": "secret:halfhitch/handle-key",
    "checks.interval_s": "30.5",
    "topics.allow": ["orders,points.*"],
}

#: The least that inject must be given.
LEAST: Final[Mapping[str, object]] = {
    "kafka.bootstrap": "kafka:9092",
    "handle.key_file": "secret:halfhitch/handle-key",
}
IMAGE: Final = f"halfhitch:{__version__}"

#: On top of `VALUES`.
CHANGES: dict[str, Object] = {
    "as it is": {},
    "with coordinators": {
        "coordinators": {"enabled": True},
        "doors": {"http": {"encryptedInFront": True}, "admin": {"encryptedInFront": True}},
    },
    "some namespaces": {
        "injection": {"policy": {"namespaceSelector": {"matchLabels": {"team": "sales"}}}}
    },
    "not refused": {"injection": {"policy": {"failurePolicy": "Ignore"}}},
    "by tcp": {"injection": {"transport": "tcp"}},
    "ready without Kafka": {"injection": {"readiness": False}},
    "other amounts": {"injection": {"resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}}}},
    "no amounts": {"injection": {"resources": {"limits": None, "requests": None}}},
    "any user": {"runAsUser": None, "runAsGroup": None},
    "long names": {"fullnameOverride": "a" * 80},
    "settings of coordinators": {"settings": {"auth": {}, "log": {"format": "json"}}},
    "other ports": {"injection": {"settings": {"http": {"port": 1}, "admin": {"port": 2}}}},
}


def _pod(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": "shop:1"}], **spec},
    }


PODS: Final[Mapping[str, Object]] = {
    one["metadata"]["name"]: one
    for one in (
        _pod("plain"),
        _pod("with-a-group", securityContext={"fsGroup": 1000}),
        _pod(
            "several",
            securityContext={"fsGroup": 1000, "runAsNonRoot": True},
            containers=[
                {
                    "name": "app",
                    "image": "shop:1",
                    "env": [
                        {"name": "HALFHITCH_ADDRESS", "value": "http://localhost:1"},
                        {"name": "AT", "value": "$(HALFHITCH_ADDRESS)/here"},
                    ],
                    "ports": [{"containerPort": 80}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                },
                {"name": "proxy", "image": "proxy:2", "env": []},
            ],
            initContainers=[
                {"name": "migrate", "image": "shop:1", "env": [{"name": "A", "value": "b"}]},
                {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"},
            ],
            volumes=[{"name": "data", "emptyDir": {}}],
        ),
        _pod("to-end", restartPolicy="Never", initContainers=[]),
        _pod(
            "by-udp-and-elsewhere",
            terminationGracePeriodSeconds=7,
            os={"name": "linux"},
            nodeSelector={"kubernetes.io/os": "linux"},
            containers=[
                {
                    "name": "app",
                    "image": "shop:1",
                    "ports": [{"containerPort": 8340, "protocol": "UDP"}, {"containerPort": 9876}],
                    "volumeMounts": [{"name": "data", "mountPath": "/srv/run/halfhitch"}],
                }
            ],
            volumes=[{"name": "data", "emptyDir": {}}],
        ),
    )
}

ANNOTATIONS: Final[Mapping[str, dict[str, str]]] = {
    "none": {},
    "settings": {
        "halfhitch/checks.interval_s": "90",
        "halfhitch/topics.create": "true",
        "halfhitch/topics.allow": "a,b",
        "halfhitch/log.level": "debug",
        "halfhitch/kafka.bootstrap": "another:9092",
    },
    "ports": {"halfhitch/http.port": "9000", "halfhitch/admin.port": "9001"},
    "socket": {"halfhitch/transport": "socket"},
    "tcp": {"halfhitch/transport": "tcp", "somebody/else.says": "hello"},
    "ready without Kafka": {"halfhitch/readiness": "false"},
    "amounts": {
        "halfhitch/cpu-request": "0.1",
        "halfhitch/cpu-limit": "2",
        "halfhitch/memory-request": "128Mi",
        "halfhitch/memory-limit": "1.5Gi",
    },
    "no amounts": {
        "halfhitch/cpu-request": "none",
        "halfhitch/cpu-limit": "none",
        "halfhitch/memory-request": "none",
        "halfhitch/memory-limit": "none",
    },
    "files": {
        "halfhitch/redis.url_file": "secret:redis/url",
        "halfhitch/handle.key_file": "secret:own/key",
        "halfhitch/auth.identities_file": "configmap:ids/identities.toml",
    },
    "options": {
        "halfhitch/kafka.options": "security.protocol=SSL,ssl.cipher.suites=A,B,"
        "ssl.certificate.location=secret:me/tls.crt,ssl.crl.location=configmap:crl/crl.pem"
    },
    "one more option": {"halfhitch/kafka.options": "client.rack=eu-1a"},
    "options with blanks": {
        "halfhitch/kafka.options": " client.rack=a b , ssl.crl.location = secret:crl/crl.pem"
    },
    "a path": {"halfhitch/kafka.options": "ssl.ca.location=/etc"},
    "an option by its other name": {"halfhitch/kafka.options": "compression.codec=lz4"},
    "another authority": {
        "halfhitch/kafka.options": "security.protocol=SSL,ssl.ca.location=configmap:own/ca.crt"
    },
    "files of a door that is off": {
        "halfhitch/rocketmq.tls_cert": "secret:tls/tls.crt",
        "halfhitch/rocketmq.tls_key": "secret:tls/tls.key",
        "halfhitch/rocketmq.tls_required": "true",
        "halfhitch/rocketmq.access_key_file": "secret:keys/keys",
    },
    "files of a door that is on": {
        "halfhitch/rocketmq.enabled": "true",
        "halfhitch/rocketmq.port": "9877",
        "halfhitch/rocketmq.tls_cert": "secret:tls/tls.crt",
        "halfhitch/rocketmq.tls_key": "secret:tls/tls.key",
    },
    "TLS within": {
        "halfhitch/http.tls_cert": "secret:tls/tls.crt",
        "halfhitch/http.tls_key": "secret:tls/tls.key",
    },
}


def template(**pod: Any) -> Object:
    """The smallest template of a pod."""
    return {"spec": {"containers": [{"name": "app", "image": "a:1"}], **pod}}


def chart(*changes: Mapping[str, Any]) -> list[Object]:
    """The chart's objects that put sidecars into pods."""
    return rendered(CHARTS / "halfhitch", merged(VALUES, *changes))


def asking(
    pod: Object, annotations: Mapping[str, str] | None = None, value: str = "true"
) -> Object:
    """That pod, with the label that asks for a sidecar."""
    found = copy.deepcopy(pod)
    found["metadata"]["labels"][LABEL] = value
    if annotations:
        found["metadata"]["annotations"] = dict(annotations)
    return found


def by_policy(objects: Iterable[Object]) -> Object:
    """The spec of a plain pod after it met the chart's policies."""
    found: Object = admitted(objects, asking(PODS["plain"]))["spec"]
    return found


def inject(pod: Object) -> Object:
    """What `halfhitch inject` makes of it."""
    found = copy.deepcopy(pod)
    Sidecar(Given.of(FLAGS), IMAGE).inject("here", found, ends=True)
    return found


def comparable(pod: Object) -> Object:
    """Names and settings instead of lists whose order says nothing."""
    spec = copy.deepcopy(pod["spec"])
    spec["volumes"] = {one["name"]: one for one in spec["volumes"]}
    for one in spec["volumes"].values():
        for source in one.get("projected", {}).get("sources", ()):
            if "items" in next(iter(source.values())):
                one["projected"]["sources"].sort(key=_in_one_order)
                break
    for one in spec["initContainers"]:
        if one["name"] == "halfhitch":
            # An empty mapping says what none says.
            one["resources"] = {name: each for name, each in one["resources"].items() if each}
            one["env"] = {entry["name"]: _meant(entry) for entry in one["env"]}
    return {"spec": spec, "labels": pod["metadata"]["labels"]}


def _in_one_order(source: Object) -> str:
    return json.dumps(source, sort_keys=True)


def _meant(variable: Object) -> object:
    """The value of the setting, however it is written."""
    name, text = variable["name"], variable.get("value")
    setting = _BY_ENV[name]
    if text is None:
        return variable["valueFrom"]
    if setting.is_map:
        if text.startswith("{"):
            return json.loads(text)
        pairs = (part.partition("=") for part in pairs_of(text))
        return {name.strip(): value for name, _, value in pairs}
    if setting.metavar == "PATH":
        return text
    return load({setting.key: text}, purpose=Purpose.CLIENT).value_of(setting.key)
