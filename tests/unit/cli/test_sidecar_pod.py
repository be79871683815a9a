"""The sidecar that is injected is the chart's, and the one that the settings describe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from halfhitch_cli.pod_rules import NotInjected
from halfhitch_cli.pod_settings import Given
from halfhitch_cli.sidecar_pod import Sidecar
from harness.charts import parent_chart, rendered
from harness.injected import IMAGE, LEAST, template

if TYPE_CHECKING:
    from pathlib import Path

_SASL: Final = "security.protocol=SASL_SSL,sasl.mechanism=PLAIN,sasl.username=u"


def injected(flags: dict[str, object], **given: Any) -> dict[str, Any]:
    found = template(securityContext={"fsGroup": 1})
    Sidecar(Given.of(flags), IMAGE, **given).inject("here", found)
    pod: dict[str, Any] = found["spec"]
    return pod


def test_readiness_may_be_left_to_the_application() -> None:
    def probes(annotations: dict[str, str], **given: Any) -> set[str]:
        found = {**template(), "metadata": {"annotations": annotations}}
        Sidecar(Given.of(LEAST), IMAGE, **given).inject("here", found)
        return {name for name in found["spec"]["initContainers"][0] if name.endswith("Probe")}

    all_of_them = {"startupProbe", "livenessProbe", "readinessProbe"}
    said = {"halfhitch/readiness": "false"}
    assert probes({}) == probes({"halfhitch/readiness": "true"}, has_readiness=False) == all_of_them
    assert probes(said) == probes({}, has_readiness=False) == all_of_them - {"readinessProbe"}
    with pytest.raises(NotInjected, match="readiness must be true or false"):
        probes({"halfhitch/readiness": "perhaps"})


def comparable(container: dict[str, Any]) -> dict[str, Any]:
    """Without the order of its variables."""
    environment = {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}
    options = environment.get("HALFHITCH_KAFKA_OPTIONS")
    if isinstance(options, str):
        environment["HALFHITCH_KAFKA_OPTIONS"] = json.loads(options)
    return {**container, "env": environment}


@pytest.mark.parametrize("mode", ["native", "container"])
@pytest.mark.parametrize("is_rich", [False, True])
def test_it_is_the_charts_sidecar(mode: str, is_rich: bool, tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "mode": mode,
        "settings": {"kafka": {"bootstrap": "kafka:9092"}},
        "secrets": {"handleKey": {"secretName": "halfhitch"}},
    }
    flags = dict(LEAST)
    if is_rich:
        values["settings"] |= {
            "checks": {"interval_s": 30.5},
            "topics": {"allow": ["orders", "points.*"], "create": True},
        }
        values["settings"]["kafka"]["options"] = {"security.protocol": "SSL"}
        values["secrets"] |= {
            "kafkaCa": {"secretName": "ca"},
            "redisUrl": {"secretName": "redis", "key": "url"},
        }
        flags |= {
            "checks.interval_s": "30.5",
            "topics.allow": ["orders,points.*"],
            "topics.create": "true",
            "kafka.options": ["security.protocol=SSL", "ssl.ca.location=secret:ca/ca.crt"],
            "redis.url_file": "secret:redis/url",
        }
    (deployment,) = rendered(parent_chart(tmp_path), {"halfhitch-sidecar": values})
    theirs = deployment["spec"]["template"]["spec"]
    ours = injected(flags, mode=mode)
    place = "initContainers" if mode == "native" else "containers"
    found = [
        comparable(one)
        for pod in (ours, theirs)
        for one in pod[place]
        if one["name"] == "halfhitch"
    ]
    assert found[0] == found[1]
    assert {one["name"]: one for one in ours["volumes"]} == {
        one["name"]: one for one in theirs["volumes"]
    }


def test_a_second_time_changes_nothing() -> None:
    found = template()
    sidecar = Sidecar(Given.of(LEAST), IMAGE)
    sidecar.inject("here", found)
    once = json.dumps(found)
    sidecar.inject("here", found)
    assert json.dumps(found) == once


def test_a_newer_image_takes_the_place_of_the_old() -> None:
    found = template()
    for image in ("halfhitch:1", "halfhitch:2"):
        Sidecar(Given.of(LEAST), image).inject("here", found)
    assert [one["image"] for one in found["spec"]["initContainers"]] == ["halfhitch:2"]


def test_what_the_application_says_of_its_own_stays() -> None:
    own = [{"name": "COLOUR", "value": "red"}]
    found = template(volumes=[{"name": "data", "emptyDir": {}}])
    found["spec"]["containers"][0]["env"] = own
    Sidecar(Given.of(LEAST), IMAGE, transport="socket").inject("here", found)
    assert found["spec"]["containers"][0]["env"][0] == own[0]
    assert found["spec"]["volumes"][0]["name"] == "data"


def test_an_annotation_says_the_transport() -> None:
    found = template()
    found["metadata"] = {"annotations": {"halfhitch/transport": "pigeon"}}
    with pytest.raises(NotInjected, match="must be auto, socket or tcp"):
        Sidecar(Given.of(LEAST), IMAGE).inject("here", found)


def test_the_pods_token_was_mounted_into_the_sidecar() -> None:
    """Kubernetes leaves a container alone where something is mounted in that place."""
    (sidecar,) = injected(LEAST)["initContainers"]
    (mount,) = [m for m in sidecar["volumeMounts"] if m["name"] == "halfhitch-no-token"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"


def test_an_address_was_http_although_the_door_spoke_tls() -> None:
    found = template()
    tls = {"http.tls_cert": "secret:tls/tls.crt", "http.tls_key": "secret:tls/tls.key"}
    Sidecar(Given.of({**LEAST, **tls}), IMAGE, transport="tcp").inject("here", found)
    (address,) = found["spec"]["containers"][0]["env"]
    assert address["value"] == "https://127.0.0.1:8340"


@pytest.mark.parametrize("door", ["http", "rocketmq"])
def test_tls_whose_files_are_secrets_was_refused(door: str) -> None:
    flags: dict[str, object] = {
        f"{door}.tls_cert": "secret:a/c",
        f"{door}.tls_client_ca": "secret:a/ca",
        f"{door}.tls_clients": "required",
    }
    if door == "rocketmq":
        flags |= {"rocketmq.enabled": "true", "rocketmq.tls_required": "true"}
    name = f"HALFHITCH_{door}_TLS_CLIENT_CA".upper()
    (sidecar,) = injected({**LEAST, **flags})["initContainers"]
    (path,) = [one["value"] for one in sidecar["env"] if one["name"] == name]
    assert path == f"/etc/halfhitch/secrets/{door}-tls-client-ca"


def test_a_password_that_is_a_file_stays_out_of_the_options() -> None:
    given = {"kafka.options": [_SASL], "kafka.sasl_password_file": "secret:kafka/password"}
    given |= {"kafka.verify_host_names": "false"}
    (sidecar,) = injected({**LEAST, **given})["initContainers"]
    environment = {one["name"]: one.get("value") for one in sidecar["env"]}
    assert json.loads(environment["HALFHITCH_KAFKA_OPTIONS"]) == dict(
        pair.split("=") for pair in _SASL.split(",")
    )
    path = environment["HALFHITCH_KAFKA_SASL_PASSWORD_FILE"]
    assert path == "/etc/halfhitch/secrets/kafka-password"
    assert "stands:for" not in str(sidecar)


def test_files_of_a_door_that_was_off_were_mounted() -> None:
    """A secret that is not there holds the pod up, and nothing would read it."""
    flags: dict[str, object] = {
        **LEAST,
        "rocketmq.tls_cert": "secret:tls/tls.crt",
        "rocketmq.tls_key": "secret:tls/tls.key",
        "rocketmq.tls_required": "true",
        "rocketmq.access_key_file": "secret:keys/keys",
        "rocketmq.broker_name": "b",
    }
    off, on = (injected({**flags, "rocketmq.enabled": each}) for each in ("false", "true"))
    for pod, there in ((off, set()), (on, {"tls", "keys"})):
        (sidecar,) = pod["initContainers"]
        (sources,) = [one["projected"]["sources"] for one in pod["volumes"] if "projected" in one]
        assert {one["secret"]["name"] for one in sources} == {"halfhitch", *there}
        told = {one["name"].removeprefix("HALFHITCH_ROCKETMQ_") for one in sidecar["env"]}
        own = {"TLS_CERT", "TLS_KEY", "TLS_REQUIRED", "ACCESS_KEY_FILE"}
        assert told & own == (own if there else set())
        assert "BROKER_NAME" in told
