"""Values that the charts are rendered with, for schemas and for a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from harness.charts import CHARTS

if TYPE_CHECKING:
    from harness.charts import Object

CHART = CHARTS / "halfhitch"
CI = {path.stem.removesuffix("-values"): path for path in sorted((CHART / "ci").glob("*.yaml"))}


def values(name: str) -> Object:
    """Those for continuous integration, by name."""
    found: Object = yaml.safe_load(CI[name].read_text())
    return found


#: Each on top of the values for a mesh, which are the smallest.
CHANGES: dict[str, Object] = {
    "as it is": {},
    "one instance": {"coordinators": {"replicas": 1}},
    "no coordinators": {"coordinators": {"enabled": False}},
    "autoscaling": {"autoscaling": {"enabled": True}},
    "no budget": {"podDisruptionBudget": {"enabled": False}},
    "a budget in percent": {"podDisruptionBudget": {"maxUnavailable": "30%"}},
    "network policy": {"networkPolicy": {"enabled": True}},
    "network policy, redis": {
        "networkPolicy": {"enabled": True},
        "secrets": {"redisUrl": {"secretName": "redis"}},
    },
    "pod monitor": {"metrics": {"podMonitor": True, "labels": {"release": "prometheus"}}},
    "service monitor": {"metrics": {"serviceMonitor": True}},
    "alerts": {"prometheusRule": {"enabled": True, "undecidedAgeSeconds": 60}},
    "no topics": {"topics": {"init": False}},
    "admin on loopback": {"doors": {"admin": {"exposed": False}}},
    "rocketmq": {
        "doors": {"rocketmq": {"enabled": True, "encryptedInFront": True}},
        "secrets": {"rocketmqAccessKeys": {"secretName": "halfhitch"}},
    },
    "identities": {"secrets": {"identities": {"secretName": "ids"}}},
    "kafka with TLS": {
        "secrets": {
            "kafkaCa": {"secretName": "ca"},
            "kafkaCertificate": {"secretName": "me"},
            "kafkaKey": {"secretName": "me"},
        },
        "settings": {"kafka": {"options": {"security.protocol": "SSL"}}},
    },
    "any user": {"runAsUser": None, "runAsGroup": None},
    "an account that is there": {"serviceAccount": {"create": False, "name": "kafka"}},
    "not ready, still served": {"probes": {"readiness": {"enabled": False}}},
    "no rest before the stop": {"preStopSeconds": 0},
    "long names": {"fullnameOverride": "a" * 80},
    "another port": {"doors": {"http": {"port": 80}, "admin": {"port": 81}}},
    "affinity": {"affinity": {"podAntiAffinity": {}}},
    "IPv6": {"doors": {"bind": "::"}},
}

#: Of the library, below the name of the dependency.
LIBRARY: dict[str, Object] = {
    "native": {},
    "container": {"mode": "container"},
    "tcp": {"transport": "tcp"},
    "container, tcp": {"mode": "container", "transport": "tcp"},
    "metrics": {
        "doors": {"admin": {"exposed": True, "tls": {"secretName": "tls"}}},
        "secrets": {"authTokens": {"secretName": "halfhitch"}},
    },
    "rocketmq": {"doors": {"rocketmq": {"enabled": True}}},
    "any user": {"runAsUser": None, "runAsGroup": None},
    "off": {"enabled": False},
}
