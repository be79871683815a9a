"""What the charts render: valid for each Kubernetes, restricted, and a sidecar starts with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.config import Purpose, Settings, load
from harness.chart_starts import SECRETS
from harness.chart_values import CHANGES, CHART, CI, LIBRARY, values
from harness.charts import (
    CHARTS,
    KUBERNETES,
    merged,
    parent_chart,
    pod_specs,
    render,
    rendered,
    told,
    unrestricted,
    wrong_objects,
)
from harness.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from harness.charts import Object

#: The oldest and the newest; what lies between is long.
VERSIONS = [
    version if version in (KUBERNETES[0], KUBERNETES[-1])
    else pytest.param(version, marks=pytest.mark.long)
    for version in KUBERNETES
]  # fmt: skip
GOLDEN = ROOT / "tests" / "deploy" / "golden"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_the_chart_is_valid_and_restricted(change: str, version: str) -> None:
    objects = rendered(CHART, merged(values("mesh"), CHANGES[change], {"kubeVersion": version}))
    assert wrong_objects(objects, version) == []
    assert [line for pod in pod_specs(objects) for line in unrestricted(*pod)] == []
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 for _, name in names)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CI)
def test_values_for_ci_are_valid_and_restricted(name: str, version: str) -> None:
    objects = rendered(CHART, {**values(name), "kubeVersion": version})
    assert wrong_objects(objects, version) == []
    assert [line for pod in pod_specs(objects) for line in unrestricted(*pod)] == []


@pytest.mark.parametrize("name", CI)
def test_the_chart_renders_what_it_rendered(name: str, request: pytest.FixtureRequest) -> None:
    """After a change that is meant: `pytest tests/deploy --rewrite`, and read the difference."""
    parts = render(CHART, {**values(name), "kubeVersion": "1.33"})
    text = "".join(
        f"# {part}\n{re.sub(chr(10) + '{2,}', chr(10), body).strip()}\n"
        for part, body in sorted(parts.items())
        if body.strip()
    )
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert path.read_text() == text


def test_the_linter_of_helm_is_content() -> None:
    import helm_python

    for chart in (CHART, CHARTS / "halfhitch-sidecar"):
        messages = helm_python.lint(chart, values("mesh") if chart == CHART else None)["messages"]
        assert [one for one in messages if one["severity"] > 1] == []


# -- a sidecar starts with it --------------------------------------------------------------------


def settings_of(container: Object, folder: Path) -> Settings:
    """What the sidecar of this container makes of its environment; files lie in `folder`."""
    environ = {}
    for one in container["env"]:
        text = one.get("value", "demo-0")
        for path in re.findall(r"/etc/halfhitch/[^\"]+", text):
            file = folder / path.removeprefix("/etc/halfhitch/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(SECRETS.get(file.name, "-"))
        environ[one["name"]] = text.replace("/etc/halfhitch", str(folder))
    assert len(environ) == len(container["env"]), "a variable is there twice"
    purpose = Purpose.SERVE if container["args"] == ["serve"] else Purpose.TOOL
    return load(environ=environ, purpose=purpose)


def containers(objects: list[Object]) -> list[Object]:
    """Those that run Half Hitch."""
    return [
        one
        for _, pod in pod_specs(objects)
        for one in (*(pod.get("initContainers") or []), *pod["containers"])
        if one["name"] == "halfhitch"
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_the_sidecar_takes_what_the_chart_gives(change: str, tmp_path: Path) -> None:
    for one in containers(rendered(CHART, merged(values("mesh"), CHANGES[change]))):
        assert settings_of(one, tmp_path).kafka.bootstrap == "kafka.kafka.svc:9092"


def test_numbers_lists_and_maps_arrive_as_they_were_given(tmp_path: Path) -> None:
    given = {
        "limits": {"undecided_max": 10_000_000},
        "checks": {"interval_s": 30.5},
        "topics": {"allow": ["orders", "points.*"], "create": True},
        "kafka": {"options": {"compression.type": "lz4", "client.rack": "a,b"}},
    }
    objects = rendered(CHART, merged(values("mesh"), {"settings": given}))
    settings = settings_of(containers(objects)[0], tmp_path)
    assert settings.limits.undecided_max == 10_000_000
    assert settings.checks.interval_s == 30.5
    assert settings.topics.allow == ("orders", "points.*")
    assert settings.topics.create is True
    assert settings.kafka.options["client.rack"] == "a,b"


def test_probes_of_life_do_not_depend_on_kafka() -> None:
    for change in ({}, {"doors": {"admin": {"exposed": False}}}):
        (one,) = [
            one
            for one in containers(rendered(CHART, merged(values("mesh"), change)))
            if one["args"] == ["serve"]
        ]
        for name, path in (
            ("startupProbe", "livez"),
            ("livenessProbe", "livez"),
            ("readinessProbe", "readyz"),
        ):
            asked = one[name].get("httpGet", {}).get("path") or one[name]["exec"]["command"][-1]
            assert asked.strip("/") == path


# -- the library ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parent_chart(tmp_path_factory.mktemp("parent"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("change", LIBRARY)
def test_the_library_gives_a_valid_restricted_sidecar(
    change: str, version: str, parent: Path, tmp_path: Path
) -> None:
    given = {"halfhitch-sidecar": {**LIBRARY[change], "kubeVersion": version}}
    objects = rendered(parent, given)
    assert wrong_objects(objects, version) == []
    for where, pod in pod_specs(objects):
        assert list(unrestricted(where, pod)) == []
    found = containers(objects)
    assert len(found) == (change != "off")
    for one in found:
        assert ("restartPolicy" in one) == (LIBRARY[change].get("mode") != "container")
        settings_of(one, tmp_path)


def test_application_and_sidecar_name_the_same_socket(parent: Path, tmp_path: Path) -> None:
    (one,) = rendered(parent)
    pod = one["spec"]["template"]["spec"]
    settings = settings_of(pod["initContainers"][0], tmp_path)
    (app,) = pod["containers"]
    assert app["env"] == [{"name": "HALFHITCH_ADDRESS", "value": f"unix:{settings.http.socket}"}]
    mounts = {mount["name"] for mount in app["volumeMounts"]}
    assert mounts == {"halfhitch-socket"}, "secrets are the sidecar's alone"


# -- what is wrong is told before anything is applied -------------------------------------------

_TLS: dict[str, Any] = {"secretName": "tls"}
_PORT_VARIABLE = {"name": "HALFHITCH_HTTP_PORT", "value": "1"}
_SSL: Object = {"settings": {"kafka": {"options": {"security.protocol": "SSL"}}}}
_NO_CPU = {"requests": {"cpu": None}}
_OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "shop",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
}
_IDENTITIES = {"authTokens": {"secretName": ""}, "identities": {"secretName": "ids"}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"settings": {"kafka": {"bootstrap": ""}}}, "settings.kafka.bootstrap is not set"),
        ({"settings": {"kafka": {"bootstrp": "k:9092"}}}, "bootstrp"),
        ({"settings": {"limits": {"undecided_max": "many"}}}, "undecided_max"),
        ({"settings": {"log": {"level": "loud"}}}, "/settings/log/level"),
        ({"replicas": 3}, "replicas"),
        ({"secrets": {"handleKey": {"secretName": ""}}}, "secrets.handleKey.secretName is not"),
        ({"secrets": {"authTokens": {"secretName": ""}}}, "set secrets.authTokens.secretName"),
        ({"settings": {"handle": {"key": ["x"]}}}, "use secrets.handleKey"),
        ({"settings": {"auth": {"tokens": ["x"]}}}, "use secrets.authTokens"),
        ({"settings": {"redis": {"url": "redis://x"}}}, "use secrets.redisUrl"),
        ({"settings": {"http": {"port": 1}}}, "use doors.http.port"),
        ({"settings": {"instance": {"id": "x"}}}, "the name of the pod"),
        ({"settings": {"kafka": {"options": {"sasl.password": "x"}}}}, "use secrets.kafkaPassword"),
        ({"settings": {"http": {"hosts": ["a"]}}}, "remove settings.http.hosts"),
        ({"doors": {"http": {"encryptedInFront": False}}}, "doors.http.tls.secretName"),
        ({"doors": {"http": {"tls": _TLS}}}, "keep the one that encrypts"),
        ({"doors": {"admin": {"tls": {"clients": "wanted"}}}}, "that has ca.crt"),
        (
            {
                "doors": {
                    "admin": {"encryptedInFront": False, "tls": {**_TLS, "clients": "required"}}
                }
            },
            "set it to wanted",
        ),
        ({"doors": {"rocketmq": {"enabled": True}}}, "doors.rocketmq.tls.secretName"),
        (
            {"doors": {"rocketmq": {"enabled": True, "encryptedInFront": True}}},
            "secrets.rocketmqAccessKeys.secretName",
        ),
        (
            {"metrics": {"podMonitor": True}, "doors": {"admin": {"exposed": False}}},
            "need doors.admin.exposed",
        ),
        ({"metrics": {"podMonitor": True, "serviceMonitor": True}}, "there twice"),
        ({"autoscaling": {"enabled": True, "minReplicas": 9}}, "autoscaling.maxReplicas (6)"),
        ({"terminationGracePeriodSeconds": 20}, "set it to 30 or more"),
        ({"settings": {"drain": {"s_max": 90}}}, "set it to 110 or more"),
        (
            {"serviceAccount": {"create": False, "annotations": {"a": "b"}}},
            "serviceAccount.create is false",
        ),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"doors": {"http": {"port": 8341}}}, "doors.admin.port and doors.http.port are both 8341"),
        (
            {"doors": {"rocketmq": {"enabled": True, "port": 8340}}},
            "doors.http.port and doors.rocketmq.port are both 8340",
        ),
        ({"doors": {"bind": "127.0.0.1"}}, "set it to 0.0.0.0 or ::"),
        ({"doors": {"bind": "::1"}}, "set it to 0.0.0.0 or ::"),
        ({"doors": {"bind": "everywhere"}}, "/doors/bind"),
        ({"settings": {"kafka": {"bootstrap": "kafka"}}}, 'has "kafka", which is not host:port'),
        ({"settings": {"kafka": {"bootstrap": "a:1,,b:2"}}}, "which is not host:port"),
        ({"settings": {"kafka": {"options": {"acks": "0"}}}}, "/settings/kafka/options"),
        ({"settings": {"kafka": {"options": {"compresion.type": "lz4"}}}}, "compresion.type"),
        (merged(_SSL, {"secrets": {"kafkaCertificate": _TLS}}), "of both, or of neither"),
        (merged(_SSL, {"secrets": {"kafkaKey": _TLS}}), "of both, or of neither"),
        ({"secrets": {"kafkaCa": _TLS}}, "secrets.kafkaCa is set, and would go unheard"),
        (merged(_SSL, {"secrets": {"kafkaPassword": _TLS}}), "to SASL_SSL or SSL"),
        ({"secrets": {"redisUrl": {"secretName": "A b"}}}, "/secrets/redisUrl/secretName"),
        ({"secrets": {"redisUrl": {"key": ""}}}, "/secrets/redisUrl/key"),
        ({"extraEnv": [_PORT_VARIABLE]}, "extraEnv has HALFHITCH_HTTP_PORT"),
        ({"extraEnv": [{"value": "1"}]}, "/extraEnv/0"),
        ({"imagePullSecrets": ["images"]}, "/imagePullSecrets/0"),
        ({"autoscaling": {"enabled": True}, "resources": _NO_CPU}, "resources.requests.cpu is not"),
        ({"podDisruptionBudget": {"maxUnavailable": 0}}, "no node could be drained"),
        ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "no node could be drained"),
        ({"podDisruptionBudget": {"maxUnavailable": "1"}}, "/podDisruptionBudget/maxUnavailable"),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "commonLabels has app.kubernetes.io"),
        ({"podLabels": {"app.kubernetes.io/component": "x"}}, "podLabels has app.kubernetes.io"),
        ({"topics": {"podLabels": {"helm.sh/chart": "x"}}}, "topics.podLabels has helm.sh/chart"),
        ({"commonLabels": {"a": "1"}, "podLabels": {"a": "2"}}, "commonLabels has it too"),
        ({"commonLabels": {"rev": 1}}, "/commonLabels/rev"),
        ({"commonLabels": {"a b": "c"}}, "'a b' not allowed"),
        ({"podLabels": {"team": "the best"}}, "/podLabels/team"),
        ({"serviceAccount": {"annotations": {"a b": "c"}}}, "'a b' not allowed"),
        ({"image": {"repository": " "}}, "no image can be called"),
        ({"image": {"tag": ""}}, "image.tag and image.digest are both empty"),
        ({"doors": {"http": {"port": None}}}, "doors.http.port is null"),
        ({"doors": {"admin": {"tls": None}}}, "doors.admin.tls is null"),
        ({"secrets": {"redisUrl": None}}, "secrets.redisUrl is null"),
        ({"settings": None}, "settings is null"),
        ({"coordinators": None}, "coordinators is null"),
        ({"podAnnotations": {"on": True}}, "/podAnnotations/on"),
        ({"resources": {"request": {}}}, "request"),
        ({"metrics": {"interval": "often"}}, "/metrics/interval"),
        ({"kubeVersion": "newest"}, "/kubeVersion"),
        ({"fullnameOverride": "Bad_Name"}, "/fullnameOverride"),
        ({"injection": {"policy": {"namespaceSelector": {"team": "a"}}}}, "namespaceSelector"),
        (
            {"metrics": {"serviceMonitor": True}, "secrets": _IDENTITIES},
            "metrics.token.secretName",
        ),
        (
            {"metrics": {"podMonitor": True}, "coordinators": {"enabled": False}},
            "coordinators.enabled is false",
        ),
        ({"settings": {"kafka": {"msk_iam_region": "eu-west-1"}}}, "topics.serviceAccountName"),
    ],
)
def test_what_is_wrong_with_values_is_told_with_the_cure(change: Object, says: str) -> None:
    assert says in told(CHART, merged(values("mesh"), change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"networkPolicy": {"kafkaPorts": []}}, "would allow every port"),
        ({"networkPolicy": {"kafkaPorts": [9092, "https"]}}, "/networkPolicy/kafkaPorts/1"),
        ({"settings": {"kafka": {"bootstrap": "a:9092, b:9093"}}}, "has b:9093, and"),
        ({"settings": {"kafka": {"bootstrap": "[fd00::1]:19092"}}}, "no port 19092"),
        ({"metrics": {"serviceMonitor": True}}, "networkPolicy.monitoring is empty"),
        ({"metrics": {"podMonitor": True}}, "networkPolicy.monitoring is empty"),
        ({"settings": {"checks": {"url": "https://c.example/"}}}, "settings.checks.url is set"),
        ({"settings": {"tracing": {"endpoint": "http://o:4318"}}}, "tracing.endpoint is set"),
        (
            {
                "settings": {"kafka": {"msk_iam_region": "eu-west-1"}},
                "topics": {"serviceAccountName": "a"},
            },
            "msk_iam_region is set",
        ),
        (
            {
                "settings": {"kafka": {"options": _OIDC}},
                "secrets": {"kafkaOauthClientSecret": _TLS},
            },
            "sasl.oauthbearer.token.endpoint.url is set",
        ),
        (
            {"secrets": {"redisUrl": {"secretName": "r"}}, "networkPolicy": {"redisPorts": []}},
            "name the port of Redis",
        ),
        ({"networkPolicy": {"extraEgress": [{}]}}, "/networkPolicy/extraEgress/0"),
        ({"networkPolicy": {"clients": [{}]}}, "/networkPolicy/clients/0"),
        ({"networkPolicy": {"clients": [{"podSelecter": {}}]}}, "podSelecter"),
    ],
)
def test_a_network_policy_that_contradicts_the_values_is_told(change: Object, says: str) -> None:
    policed = merged(values("mesh"), {"networkPolicy": {"enabled": True}})
    assert told(CHART, policed) == ""
    assert says in told(CHART, merged(policed, change))


def test_a_network_policy_with_what_the_values_ask_for_is_taken() -> None:
    asked = {
        "networkPolicy": {
            "enabled": True,
            "kafkaPorts": [9092, 9093],
            "monitoring": [{"namespaceSelector": {}}],
            "extraEgress": [{"ports": [{"port": 443}]}],
        },
        "metrics": {"serviceMonitor": True},
        "settings": {
            "kafka": {"bootstrap": "a:9093,b:9092"},
            "checks": {"url": "https://c.example/"},
        },
    }
    (policy,) = [
        one
        for one in rendered(CHART, merged(values("mesh"), asked))
        if one["kind"] == "NetworkPolicy"
    ]
    assert all(rule.get("ports") for rule in policy["spec"]["egress"])


def test_the_pods_that_make_and_look_at_topics_are_as_a_mesh_and_an_account_ask() -> None:
    def tools(*changes: Object) -> list[tuple[Object, Object]]:
        found = rendered(CHART, merged(values("mesh"), *changes))
        (job,) = [one["spec"]["template"] for one in found if one["kind"] == "Job"]
        (test,) = [one for one in found if one["kind"] == "Pod"]
        return [(one["metadata"], one["spec"]) for one in (job, test)]

    mesh: Object = {
        "podLabels": {"mesh": "on", "kept": "1"},
        "podAnnotations": {"note": "a"},
        "topics": {"podLabels": {"mesh": "off"}, "podAnnotations": {"more": "b"}},
    }
    for metadata, _ in tools(mesh):
        assert (metadata["labels"]["mesh"], metadata["labels"]["kept"]) == ("off", "1")
        assert {"note": "a", "more": "b"}.items() <= metadata["annotations"].items()
    job, test = (spec.get("serviceAccountName") for _, spec in tools())
    assert (job, test) == (None, "demo-halfhitch"), "a hook runs before the account is there"
    named: Object = {"topics": {"serviceAccountName": "early"}}
    assert [spec["serviceAccountName"] for _, spec in tools(named)] == ["early", "demo-halfhitch"]
    there: Object = {"serviceAccount": {"create": False, "name": "own"}}
    assert [spec["serviceAccountName"] for _, spec in tools(there)] == ["own", "own"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kubeVersion": "1.28"}, "set halfhitch-sidecar.mode to container"),
        ({"mode": "webhook"}, "mode"),
        ({"settings": {"kafka": {"bootstrap": ""}}}, "settings.kafka.bootstrap is not set"),
        ({"doors": {"admin": {"exposed": True}}}, "doors.admin.tls.secretName"),
        (
            {"doors": {"admin": {"exposed": True, "tls": _TLS}}},
            "secrets.authTokens.secretName",
        ),
        (
            {
                "doors": {"rocketmq": {"enabled": True}},
                "secrets": {"authTokens": {"secretName": "halfhitch"}},
            },
            "set secrets.rocketmqAccessKeys.secretName too",
        ),
        (
            {
                "doors": {"rocketmq": {"enabled": True}},
                "secrets": {"identities": {"secretName": "ids"}},
            },
            "set secrets.rocketmqAccessKeys.secretName too",
        ),
        ({"doors": {"http": {"port": 8341}}}, "are both 8341"),
        ({"extraEnv": [_PORT_VARIABLE]}, "extraEnv has HALFHITCH_HTTP_PORT"),
        ({"mode": "container", "stopAfterSeconds": 30}, "give the pod 45 or more"),
        ({"mode": "container", "settings": {"drain": {"s_max": 15.5}}}, "give the pod 31 or more"),
        ({"mode": "container", "terminationGracePeriodSeconds": 20}, "give the pod 25 or more"),
    ],
)
def test_what_is_wrong_with_the_librarys_values_is_told(
    change: Object, says: str, parent: Path
) -> None:
    assert says in told(parent, {"halfhitch-sidecar": change})


def test_what_is_a_list_or_labels_may_be_null() -> None:
    """So a parent's values take a default away."""
    names = (
        *("commonLabels", "imagePullSecrets", "extraEnv", "podLabels", "podAnnotations"),
        *("nodeSelector", "tolerations", "affinity", "extraObjects", "resources"),
    )
    nothing = dict.fromkeys(names)
    more: Object = {
        "topics": {"podLabels": None, "podAnnotations": None},
        "metrics": {"labels": None, "serviceMonitor": True},
        "service": {"annotations": None},
        "dashboards": {"enabled": True, "labels": None, "annotations": None},
    }
    objects = rendered(CHART, merged(values("mesh"), nothing, more))
    assert wrong_objects(objects, "1.36") == []


# -- the judges can be red -----------------------------------------------------------------------


def test_what_the_restricted_profile_refuses_is_found() -> None:
    (stateful,) = [o for o in rendered(CHART, values("mesh")) if o["kind"] == "StatefulSet"]
    pod = stateful["spec"]["template"]["spec"]
    own = pod["containers"][0]["securityContext"]
    for changed in (
        merged(pod, {"hostNetwork": True}),
        {**pod, "volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
        *(
            {**pod, "containers": [{**pod["containers"][0], "securityContext": {**own, **wrong}}]}
            for wrong in (
                {"allowPrivilegeEscalation": True},
                {"privileged": True},
                {"capabilities": {}},
                {"runAsUser": 0},
                {"runAsNonRoot": False},
                {"seccompProfile": {"type": "Unconfined"}},
            )
        ),
    ):
        assert list(unrestricted("x", changed)), changed


def test_what_an_api_server_refuses_is_found() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": []}}
    assert wrong_objects([pod], "1.33") == []
    assert wrong_objects([{**pod, "spec": {"container": []}}], "1.33")
    assert wrong_objects([{**pod, "apiVersion": "v7"}], "1.33")
