"""The sidecar that is injected is the chart's, and the one that the settings describe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch import __version__
from halfhitch.errors import ConfigurationError
from halfhitch_cli.sidecar_pod import Given, NotInjected, Sidecar
from harness.charts import parent_chart, rendered

if TYPE_CHECKING:
    from pathlib import Path

_SASL = "security.protocol=SASL_SSL,sasl.mechanism=PLAIN,sasl.username=u"
IMAGE = f"halfhitch:{__version__}"
FLAGS: dict[str, object] = {
    "kafka.bootstrap": "kafka:9092",
    "handle.key_file": "secret:halfhitch/handle-key",
}


def template(**pod: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", "image": "a:1"}], **pod}}


def injected(flags: dict[str, object], **given: Any) -> dict[str, Any]:
    found = template(securityContext={"fsGroup": 1})
    Sidecar(Given.of(flags), IMAGE, **given).inject("here", found)
    pod: dict[str, Any] = found["spec"]
    return pod


@pytest.mark.parametrize(
    "variable",
    [
        {"name": "HALFHITCH_ADDRESS", "value": "https://coordinator:8340"},
        {"name": "HALFHITCH_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ],
)
def test_an_address_that_the_application_has_of_its_own_is_not_replaced(
    variable: dict[str, Any],
) -> None:
    for place in ("containers", "initContainers"):
        found = template()
        own = [{"name": "own", "image": "a:1", "env": [{"name": "A", "value": "b"}, variable]}]
        found["spec"][place] = [*found["spec"].get(place, []), *own]
        with pytest.raises(NotInjected, match="'own' has a HALFHITCH_ADDRESS of its own"):
            Sidecar(Given.of(FLAGS), IMAGE).inject("here", found)


def test_an_ordinary_container_that_has_no_time_to_stop_is_told() -> None:
    def stopping(given_s: int | None, drain_s: str = "10", mode: str = "container") -> None:
        found = template()
        if given_s is not None:
            found["spec"]["terminationGracePeriodSeconds"] = given_s
        Sidecar(Given.of({**FLAGS, "drain.s_max": drain_s}), IMAGE, mode).inject("here", found)

    for fits in ((None,), (25,), (5, "10", "native")):
        stopping(*fits)
    for short, least in (((24,), 25), ((None, "15.5"), 31)):
        with pytest.raises(NotInjected, match=f"terminationGracePeriodSeconds to {least}"):
            stopping(*short)


def test_a_port_that_the_application_has_is_not_the_sidecars() -> None:
    def with_port(port: int, **flags: object) -> None:
        found = template()
        found["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": port}]
        Sidecar(Given.of({**FLAGS, **flags}), IMAGE).inject("here", found)
        Sidecar(Given.of({**FLAGS, **flags}), IMAGE).inject("here", found)

    for port, door in ((8340, "http"), (8341, "admin")):
        with pytest.raises(NotInjected, match=f"door {door}: give --{door}-port another"):
            with_port(port)
    with_port(8340, **{"http.port": "9000"})
    with_port(9876)
    with pytest.raises(NotInjected, match="door rocketmq"):
        with_port(9876, **{"rocketmq.enabled": "true"})


def test_readiness_may_be_left_to_the_application() -> None:
    def probes(annotations: dict[str, str], **given: Any) -> set[str]:
        found = {**template(), "metadata": {"annotations": annotations}}
        Sidecar(Given.of(FLAGS), IMAGE, **given).inject("here", found)
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
    flags = dict(FLAGS)
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
    sidecar = Sidecar(Given.of(FLAGS), IMAGE)
    sidecar.inject("here", found)
    once = json.dumps(found)
    sidecar.inject("here", found)
    assert json.dumps(found) == once


def test_a_newer_image_takes_the_place_of_the_old() -> None:
    found = template()
    for image in ("halfhitch:1", "halfhitch:2"):
        Sidecar(Given.of(FLAGS), image).inject("here", found)
    assert [one["image"] for one in found["spec"]["initContainers"]] == ["halfhitch:2"]


def test_what_the_application_says_of_its_own_stays() -> None:
    own = [{"name": "COLOUR", "value": "red"}]
    found = template(volumes=[{"name": "data", "emptyDir": {}}])
    found["spec"]["containers"][0]["env"] = own
    Sidecar(Given.of(FLAGS), IMAGE, transport="socket").inject("here", found)
    assert found["spec"]["containers"][0]["env"][0] == own[0]
    assert found["spec"]["volumes"][0]["name"] == "data"


def test_an_annotation_says_the_transport() -> None:
    found = template()
    found["metadata"] = {"annotations": {"halfhitch/transport": "pigeon"}}
    with pytest.raises(NotInjected, match="must be auto, socket or tcp"):
        Sidecar(Given.of(FLAGS), IMAGE).inject("here", found)


def test_the_pods_token_was_mounted_into_the_sidecar() -> None:
    """Kubernetes leaves a container alone where something is mounted in that place."""
    (sidecar,) = injected(FLAGS)["initContainers"]
    (mount,) = [m for m in sidecar["volumeMounts"] if m["name"] == "halfhitch-no-token"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"


def test_an_address_was_http_although_the_door_spoke_tls() -> None:
    found = template()
    tls = {"http.tls_cert": "secret:tls/tls.crt", "http.tls_key": "secret:tls/tls.key"}
    Sidecar(Given.of({**FLAGS, **tls}), IMAGE, transport="tcp").inject("here", found)
    (address,) = found["spec"]["containers"][0]["env"]
    assert address["value"] == "https://127.0.0.1:8340"


def test_what_has_no_containers_is_told() -> None:
    with pytest.raises(NotInjected, match=r"here: its pods have no containers"):
        Sidecar(Given.of(FLAGS), IMAGE).inject("here", {"spec": {}})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("kafka.bootstrp", "k:9092", "kafka.bootstrap"),
        ("instance.id", "a", "the name of the pod"),
        ("handle.key_file", "/etc/key", "none of the pod's"),
        ("handle.key_file", "secret:Halfhitch", "secret:NAME/KEY"),
    ],
)
def test_what_cannot_be_given_is_told(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**FLAGS, key: value})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("kafka.options", [_SASL + ",sasl.password=x"], "--kafka-sasl-password-file"),
        ("redis.url", "redis://r:6379", "--redis-url-file"),
        ("handle.key", "a-key-of-sixteen-bytes-and-more", "--handle-key-file"),
        ("checks.interval_s", "0", "checks.interval_s"),
    ],
)
def test_what_must_not_stand_in_a_manifest_is_told(key: str, value: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**FLAGS, key: value}).checked()


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
    (sidecar,) = injected({**FLAGS, **flags})["initContainers"]
    (path,) = [one["value"] for one in sidecar["env"] if one["name"] == name]
    assert path == f"/etc/halfhitch/secrets/{door}-tls-client-ca"


def test_a_password_that_is_a_file_stays_out_of_the_options() -> None:
    given = {"kafka.options": [_SASL], "kafka.sasl_password_file": "secret:kafka/password"}
    given |= {"kafka.verify_host_names": "false"}
    (sidecar,) = injected({**FLAGS, **given})["initContainers"]
    environment = {one["name"]: one.get("value") for one in sidecar["env"]}
    assert json.loads(environment["HALFHITCH_KAFKA_OPTIONS"]) == dict(
        pair.split("=") for pair in _SASL.split(",")
    )
    path = environment["HALFHITCH_KAFKA_SASL_PASSWORD_FILE"]
    assert path == "/etc/halfhitch/secrets/kafka-password"
    assert "stands:for" not in str(sidecar)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"http.tls_key": "secret:a/k"}, "http.tls_key is set without http.tls_cert"),
        (
            {"auth.token_file": "secret:a/t", "rocketmq.enabled": "true"},
            "the RocketMQ door asks for no token",
        ),
        ({"kafka.sasl_password_file": "secret:a/p"}, "add security.protocol=SASL_SSL"),
        (
            {"checks.url": "http://shop:80/check", "checks.url_token_file": "secret:a/t"},
            "checks.url leads to shop without TLS",
        ),
    ],
)
def test_files_that_do_not_fit_together_went_unnoticed(flags: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**FLAGS, **flags}).checked()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("sasl.password", "give --kafka-sasl-password-file secret:NAME/KEY"),
        ("sasl.oauthbearer.client.secret", "give --kafka-oauth-client-secret-file"),
        ("ssl.key.password", "a key without a password"),
        ("sasl.username", "sasl.username names no file"),
        ("sasl.pasword", "did you mean sasl.password"),
    ],
)
def test_the_path_of_a_secret_was_the_password(option: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**FLAGS, "kafka.options": [f"{option}=secret:kafka/password"]}).checked()
