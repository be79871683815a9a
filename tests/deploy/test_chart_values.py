"""Values that were refused although nothing was wrong, that passed although something was, or that
were refused without the cure."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from halfhitch.config.kafka_options import HIDDEN
from harness.chart_values import CHART, values
from harness.charts import merged, parent_chart, render, rendered, told, wrong_objects
from harness.injected import by_policy

if TYPE_CHECKING:
    from pathlib import Path

    from harness.charts import Object

_CA: Object = {"secrets": {"kafkaCa": {"secretName": "ca"}}}
_SSL: Object = {"kafka": {"options": {"security.protocol": "SSL"}}}
_MSK: Object = {"kafka": {"msk_iam_region": "eu-west-1"}}
_ACCOUNT: Object = {"serviceAccount": {"create": False, "name": "kafka"}}
_INJECTION: Object = {"kubeVersion": "1.36", "injection": {"policy": {"enabled": True}}}
_ALONE: Object = merged(_INJECTION, {"coordinators": {"enabled": False}})
_OF_KEYS = ("ssl.key.password", "ssl.keystore.password")
_POLICED: Object = {"networkPolicy": {"enabled": True}}


def of_kind(kind: str, *changes: Object) -> Object:
    """The object of that kind, with these changes of the values for a mesh."""
    (found,) = [
        one for one in rendered(CHART, merged(values("mesh"), *changes)) if one["kind"] == kind
    ]
    return found


def injected(*changes: Object) -> Object:
    """The spec of a pod that asked the policy, with these changes of the values for a mesh."""
    return by_policy(rendered(CHART, merged(values("mesh"), *changes)))


def variables(container: Object) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in container["env"]}


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parent_chart(tmp_path_factory.mktemp("parent"))


# -- secrets for Kafka, and who heeds them -------------------------------------------------------


def test_an_authority_for_msk_was_refused_although_its_sign_in_uses_tls() -> None:
    stateful = of_kind("StatefulSet", _CA, _ACCOUNT, {"settings": _MSK})
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    options = json.loads(variables(container)["HALFHITCH_KAFKA_OPTIONS"])
    assert options == {"ssl.ca.location": "/etc/halfhitch/secrets/kafka-ca.pem"}


def test_an_authority_for_injected_sidecars_was_refused() -> None:
    (sidecar,) = injected(_CA, _ALONE, {"injection": {"settings": _SSL}})["initContainers"]
    assert "kafka-ca.pem" in variables(sidecar)["HALFHITCH_KAFKA_OPTIONS"]


@pytest.mark.parametrize(
    ("change", "who"),
    [
        ({"injection": {"settings": _SSL}}, "policy"),
        (
            {
                "settings": _SSL,
                "injection": {
                    "settings": {"kafka": {"options": {"security.protocol": "PLAINTEXT"}}}
                },
            },
            "StatefulSet",
        ),
    ],
)
def test_a_file_for_tls_kept_those_from_starting_who_speak_without(
    change: Object, who: str
) -> None:
    pods = {
        "StatefulSet": of_kind("StatefulSet", _CA, _INJECTION, change)["spec"]["template"]["spec"],
        "policy": injected(_CA, _INJECTION, change),
    }
    assert [name for name, pod in pods.items() if "kafka-ca.pem" in json.dumps(pod)] == [who]


def test_a_secret_that_nobody_heeds_is_told_still() -> None:
    for change in ({}, _INJECTION, _ALONE):
        said = told(CHART, merged(values("mesh"), _CA, change))
        assert "secrets.kafkaCa is set, and would go unheard" in said


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_passwords_of_keys_were_taken_as_plain_text(name: str, parent: Path) -> None:
    kafka: Object = {"settings": {"kafka": {"options": {name: "hunter2"}}}}
    for said in (
        told(CHART, merged(values("mesh"), kafka)),
        told(CHART, merged(values("mesh"), _INJECTION, {"injection": kafka})),
        told(parent, {"halfhitch-sidecar": kafka}),
    ):
        assert f"settings.kafka.options has {name}, which is a secret or a file: use sec" in said
        assert "hunter2" not in said
        assert name not in _OF_KEYS or "secrets.kafkaKey, of a key without a password" in said


def test_brokers_that_only_injected_sidecars_are_told_were_missed() -> None:
    brokers = {"bootstrap": "kafka.other.svc:9092"}
    none: Object = {"settings": {"kafka": {"bootstrap": ""}}}
    told_so: Object = {"injection": {"settings": {"kafka": brokers}}}
    (sidecar,) = injected(none, _ALONE, told_so)["initContainers"]
    assert variables(sidecar)["HALFHITCH_KAFKA_BOOTSTRAP"] == "kafka.other.svc:9092"
    wrong: Object = {"injection": {"settings": {"kafka": {"bootstrap": "kafka"}}}}
    said = told(CHART, merged(values("mesh"), _ALONE, wrong))
    assert 'injection.settings.kafka.bootstrap has "kafka"' in said


def test_a_port_nought_of_injected_sidecars_became_another_without_a_word() -> None:
    for door in ("http", "admin", "rocketmq"):
        change: Object = {"injection": {"settings": {door: {"port": 0}}}}
        said = told(CHART, merged(values("mesh"), _ALONE, change))
        assert f"injection.settings.{door}.port is 0" in said


def test_what_concerns_coordinators_was_refused_where_there_are_none() -> None:
    for change in (
        {"settings": {"http": {"hosts": ["localhost"]}}},
        {"settings": {"drain": {"s_max": 90}}},
        {"terminationGracePeriodSeconds": 10},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"autoscaling": {"enabled": True, "minReplicas": 9}},
    ):
        assert told(CHART, merged(values("mesh"), _ALONE, change)) == ""
        assert told(CHART, merged(values("mesh"), change)) != ""


def test_a_setting_of_injected_sidecars_wins_also_where_it_is_no_or_null() -> None:
    below: Object = {"owner": {"enabled": True}, "checks": {"interval_s": 30}, "log": {}}
    above: Object = {"owner": {"enabled": False}, "checks": {"interval_s": None}}
    change: Object = {"settings": below, "injection": {"settings": above}}
    found = variables(injected(_INJECTION, change)["initContainers"][0])
    assert found["HALFHITCH_OWNER_ENABLED"] == "false"
    assert "HALFHITCH_CHECKS_INTERVAL_S" not in found


@pytest.mark.parametrize("label", ["commonLabels", "podLabels", "topics.podLabels"])
def test_coordinators_asked_for_a_sidecar_which_the_policy_refused(label: str) -> None:
    def change(asks: str) -> Object:
        found: Object = {"halfhitch/inject": asks}
        for name in reversed(label.split(".")):
            found = {name: found}
        return merged(values("mesh"), found)

    assert f"{label} has halfhitch/inject, and the chart's pods" in told(CHART, change("true"))
    assert told(CHART, change("false")) == ""


# -- network policies ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"checks": {"url": "http://127.0.0.1:80/x"}}},
        {"settings": {"checks": {"url": "http://localhost/x"}}},
        {"settings": {"tracing": {"endpoint": "http://[::1]:4318"}}},
        {
            "settings": {"tracing": {"endpoint": "http://collector:4318"}},
            "networkPolicy": {"kafkaPorts": [9092, 4318]},
        },
        {
            "settings": {"checks": {"url": "https://checks.example/"}},
            "networkPolicy": {"kafkaPorts": [9092, 443]},
        },
        {
            "settings": {"checks": {"url": "http://checks:6379/"}},
            "secrets": {"redisUrl": {"secretName": "redis"}},
        },
        {"networkPolicy": {"kafkaPorts": [], "kafkaPeers": [{"podSelector": {}}]}},
        {"networkPolicy": {"kafkaPorts": None, "kafkaPeers": [{"podSelector": {}}]}},
        {
            "settings": {"kafka": {"bootstrap": "a:9092,b:9095"}},
            "networkPolicy": {"extraEgress": [{"ports": [{"port": 9094, "endPort": 9096}]}]},
        },
        {"networkPolicy": {"kafkaPorts": [], "extraEgress": [{"ports": [{"port": 9092}]}]}},
        {
            "secrets": {"redisUrl": {"secretName": "redis"}},
            "networkPolicy": {"redisPorts": [], "redisPeers": [{"podSelector": {}}]},
        },
        {
            "secrets": {"redisUrl": {"secretName": "redis"}},
            "networkPolicy": {"redisPorts": [], "extraEgress": [{"ports": [{"port": 6379}]}]},
        },
        {"settings": {"kafka": {"bootstrap": "localhost:19092"}}},
    ],
)
def test_a_network_policy_was_refused_that_lets_all_out_that_is_asked_for(change: Object) -> None:
    given = merged(values("mesh"), _POLICED, change)
    assert told(CHART, given) == ""
    assert wrong_objects(rendered(CHART, given), "1.36") == []
    rules = of_kind("NetworkPolicy", _POLICED, change)["spec"]["egress"]
    assert all(rule.get("ports") or rule.get("to") for rule in rules), "one allows everything"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {
                "settings": {"tracing": {"endpoint": "http://collector:4318"}},
                "networkPolicy": {
                    "kafkaPorts": [9092, 4318],
                    "kafkaPeers": [{"podSelector": {}}],
                },
            },
            "add a rule for it (port 4318)",
        ),
        ({"settings": {"checks": {"url": "https://127.example/"}}}, "add a rule for it (port 443)"),
        ({"networkPolicy": {"kafkaPorts": [0]}}, "/networkPolicy/kafkaPorts/0"),
        (
            {
                "settings": {"kafka": {"bootstrap": "a:9092,b:9095"}},
                "networkPolicy": {"extraEgress": [{"ports": [{"port": 443}]}]},
            },
            "no port 9095",
        ),
        ({"service": {"type": "LoadBalancer"}}, "only pods of this namespace get in"),
    ],
)
def test_a_network_policy_that_would_stop_what_is_asked_for_is_told(
    change: Object, says: str
) -> None:
    assert says in told(CHART, merged(values("mesh"), _POLICED, change))


# -- types, nothing, null ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"extraEnv": [{"name": "A", "value": 1000000}]}, "value 1000000, which is no text"),
        ({"extraEnv": [{"name": "A", "value": True}]}, "value true, which is no text"),
        ({"extraEnv": [{"name": "A", "value": {}}]}, "write it in quotes"),
        ({"extraEnv": [{"name": "A"}, {"name": "A"}]}, "extraEnv has A twice"),
        (
            {"extraEnv": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]},
            "A with value and valueFrom",
        ),
        ({"extraEnv": [{"name": "A=B"}]}, "/extraEnv/0/name"),
        ({"extraEnv": [{"name": "A", "vaule": "1"}]}, "vaule"),
        ({"image": {"repository": ""}}, "image.repository is empty: name"),
        ({"image": {"repository": "r.example:5000/hh:v1"}}, "put that into image.tag"),
        ({"image": {"repository": "hh@sha256:00"}}, "put that into image.tag or image.digest"),
        ({"image": {"repository": "r.example/Half-Hitch"}}, "in small letters"),
        ({"image": {"repository": "a b"}}, "no image can be called"),
        ({"image": {"tag": 1.5}}, "image.tag is 1.5 and no text: write it in quotes"),
        ({"resources": {"limits": {"memory": "512MB"}}}, "/resources/limits/memory"),
        ({"resources": {"requests": {"cpu": True}}}, "/resources/requests/cpu"),
        ({"affinity": {"podAntiAffinty": {}}}, "podAntiAffinty"),
        ({"image": {"tag": None}}, 'image.tag is null or missing: leave its line out, and it is "'),
        ({"doors": {"http": {"port": 0}}}, "doors.http.port is 0"),
        ({"doors": {"admin": {"port": None}}}, "leave its line out, and it is 8341"),
        ({"doors": {"admin": {"tls": None}}}, "doors.admin.tls is null or missing"),
        ({"secrets": {"redisUrl": None}}, "secrets.redisUrl is null or missing"),
        ({"secrets": None}, "secrets is null or missing"),
        ({"settings": None}, "settings is null or missing"),
        ({"coordinators": None}, "it is what the chart says"),
        ({"preStopSeconds": None}, "leave its line out, and it is 5. After helm upgrade --reuse"),
        ({"podDisruptionBudget": {"maxUnavailable": None}}, "and it is 1."),
        ({"settings": {"kafka": None}}, "settings.kafka.bootstrap is not set"),
        ({"settings": {"kafka": {"bootstrap": "a:0"}}}, "a port is from 1 to 65535"),
        ({"settings": {"kafka": {"bootstrap": "a:1,b:99999"}}}, "has b:99999, and a port is"),
    ],
)
def test_what_is_wrong_was_told_without_the_cure_or_late(change: Object, says: str) -> None:
    assert says in told(CHART, merged(values("mesh"), change))


def nothing_at(paths: list[str]) -> Object:
    return merged(
        *(functools.reduce(lambda v, n: {n: v}, reversed(p.split(".")), None) for p in paths)  # type: ignore[arg-type]
    )


def test_a_value_that_is_null_is_told_wherever_it_is() -> None:
    """And not by a template that stumbles over it."""
    text = (CHART / "templates" / "_needed.tpl").read_text()
    needed = yaml.safe_load(text.partition('.needed" -}}\n')[2].partition("{{-")[0])
    given = values("mesh")
    for path in list(needed)[::8]:
        said = told(CHART, merged(given, nothing_at([path])))
        assert f"{path} is null or missing: leave its line out, and it is " in said, path
    rest = paths_of(yaml.safe_load((CHART / "values.yaml").read_text()))
    optional = [path for path in rest if path not in needed and "secretName" not in path]
    assert told(CHART, merged(given, nothing_at(optional))) == ""
    tls = [path for path in rest if path.endswith("tls.secretName")]
    assert told(CHART, merged(given, nothing_at(tls))) == ""


def paths_of(given: Object, above: str = "") -> list[str]:
    found = []
    for name, value in given.items():
        found.append(f"{above}{name}")
        if isinstance(value, dict):
            found += paths_of(value, f"{above}{name}.")
    return found


def test_a_setting_may_be_null_so_that_a_file_takes_away_what_another_has() -> None:
    given: Object = {
        "settings": {
            "checks": {"interval_s": None},
            "log": None,
            "topics": {"allow": None},
            "kafka": {"options": {"client.rack": None, "compression.type": "lz4"}},
        }
    }
    stateful = of_kind("StatefulSet", given)
    found = variables(stateful["spec"]["template"]["spec"]["containers"][0])
    assert not {"HALFHITCH_CHECKS_INTERVAL_S", "HALFHITCH_TOPICS_ALLOW"} & set(found)
    assert json.loads(found["HALFHITCH_KAFKA_OPTIONS"]) == {"compression.type": "lz4"}


def test_a_port_below_1024_could_not_be_bound_by_a_user_without_rights() -> None:
    """Where the container's runtime does not allow it to all, as containerd before 2.0."""

    def sysctls(doors: Object) -> object:
        pod = of_kind("StatefulSet", {"doors": doors})["spec"]["template"]["spec"]
        return pod["securityContext"].get("sysctls")

    low = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]
    assert sysctls({"http": {"port": 80}, "admin": {"port": 81}}) == low
    assert sysctls({"admin": {"exposed": False, "port": 81}, "rocketmq": {"port": 82}}) is None


def test_more_objects_may_have_braces_of_their_own() -> None:
    said: Object = {"kind": "ConfigMap", "metadata": {"name": "more"}, "apiVersion": "v1"}
    more = {"extraObjects": [{**said, "data": {"a": "{{ `{{ $value }}` }}"}}]}
    found = [one for one in rendered(CHART, merged(values("mesh"), more)) if one.get("data")]
    assert found[0]["data"] == {"a": "{{ $value }}"}


def test_a_secret_for_a_door_that_is_shut_was_mounted() -> None:
    change: Object = {"doors": {"rocketmq": {"tls": {"secretName": "none-such"}}}}
    assert "none-such" not in json.dumps(of_kind("StatefulSet", change))


def test_a_million_became_a_text_with_an_exponent() -> None:
    many = 1_000_000
    change: Object = {
        "terminationGracePeriodSeconds": many,
        "topics": {"deadlineSeconds": many},
        "coordinators": {"replicas": many},
    }
    assert wrong_objects(rendered(CHART, merged(values("mesh"), change)), "1.36") == []


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["123", "true", "1e5", "my.shop", "a" * 53, "0.1", "null"])
@pytest.mark.parametrize(
    "namespace", ["null", *(pytest.param(name, marks=pytest.mark.long) for name in ("123", "shop"))]
)
def test_a_release_and_a_namespace_of_any_name_give_objects_with_texts(
    release: str, namespace: str
) -> None:
    given = merged(
        values("everything"), {"fullnameOverride": "coordinator" if release[0].isdigit() else ""}
    )
    found = rendered(CHART, given, name=release, namespace=namespace)
    assert wrong_objects(found, "1.33") == []
    for one in found:
        if "spec" in one:
            assert one["metadata"]["namespace"] == namespace
        assert "." not in one["metadata"]["name"]


@pytest.mark.parametrize("namespace", ["123", "null"])
def test_the_policies_are_valid_in_a_namespace_of_any_name(namespace: str) -> None:
    found = rendered(CHART, merged(values("mesh"), _ALONE), namespace=namespace)
    assert wrong_objects(found, "1.36") == []
    assert by_policy(found)["initContainers"]


def test_a_release_that_begins_with_a_digit_is_told() -> None:
    """A Service must not, and the API server says so in words of its own."""
    said = told(CHART, values("mesh"), name="1st")
    assert "would be called 1st-halfhitch" in said
    assert "set fullnameOverride" in said
    assert told(CHART, merged(values("mesh"), _ALONE), name="1st") == ""


def test_names_that_look_like_numbers_stay_texts() -> None:
    named: Object = {
        "secrets": {"handleKey": {"secretName": "123", "key": "1.0"}},
        "doors": {"http": {"encryptedInFront": False, "tls": {"secretName": "456"}}},
        "serviceAccount": {"create": False, "name": "789"},
        "priorityClassName": "100",
        "nameOverride": "42",
        "metrics": {"serviceMonitor": True, "token": {"secretName": "11", "key": "12"}},
    }
    found = rendered(CHART, merged(values("mesh"), named))
    assert wrong_objects(found, "1.36") == []


# -- the library ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"extraEnv": [{"name": "A", "value": 1}]}, "value 1, which is no text"),
        ({"image": {"tag": 2}}, "image.tag is 2 and no text"),
        ({"image": {"repository": ""}}, "image.repository is empty"),
        ({"doors": {"http": {"port": 0}}}, "doors.http.port is 0"),
        ({"doors": {"http": {"port": None}}}, "leave its line out, and it is 8340"),
        ({"probes": {"startup": None}}, "probes.startup is null or missing"),
        ({"terminationGracePeriodSeconds": 5}, "give the pod 7 and what the application takes"),
        (
            {
                "secrets": {"authTokens": {"secretName": "a"}},
                "doors": {
                    "bind": "127.0.0.1",
                    "admin": {"exposed": True, "encryptedInFront": True},
                },
            },
            "no probe reaches that",
        ),
    ],
)
def test_what_is_wrong_with_the_librarys_values_was_told_late(
    change: Object, says: str, parent: Path
) -> None:
    assert says in told(parent, {"halfhitch-sidecar": change})


def test_the_library_takes_an_authority_for_msk(parent: Path) -> None:
    assert told(parent, {"halfhitch-sidecar": merged(_CA, {"settings": _MSK})}) == ""


def test_the_librarys_admin_door_was_out_of_reach_where_pods_have_ipv6_alone(parent: Path) -> None:
    change = {
        "secrets": {"authTokens": {"secretName": "a"}},
        "doors": {"bind": "::", "admin": {"exposed": True, "encryptedInFront": True}},
    }
    (deployment, _) = rendered(parent, {"halfhitch-sidecar": change})
    (sidecar,) = deployment["spec"]["template"]["spec"]["initContainers"]
    found = variables(sidecar)
    assert (found["HALFHITCH_ADMIN_HOST"], found["HALFHITCH_HTTP_HOST"]) == ("::", "127.0.0.1")


def test_values_below_the_name_without_an_alias_left_the_sidecar_out(tmp_path: Path) -> None:
    chart = parent_chart(tmp_path)
    about = chart / "Chart.yaml"
    about.write_text(about.read_text() + "    alias: halfhitch\n")
    assert "move them below halfhitch" in told(chart)
    given = chart / "values.yaml"
    given.write_text(given.read_text().replace("halfhitch-sidecar:", "halfhitch:"))
    (chart / "templates" / "deployment.yaml").write_text('{{ include "halfhitch.sidecar" $ }}')
    assert "name: halfhitch" in render(chart)["shop/templates/deployment.yaml"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{{ range list "a" }}{{ include "halfhitch.sidecar" . }}{{ end }}', "with a dollar sign"),
        (
            '{{ include "halfhitch.sidecar.podMonitor" (dict "root" . "name" "a") }}',
            "included without selector",
        ),
        ('{{ include "halfhitch.sidecar.podMonitor" (dict "name" "a") }}', "without root"),
    ],
)
def test_a_template_that_was_included_wrongly_says_how(
    text: str, says: str, tmp_path: Path
) -> None:
    chart = parent_chart(tmp_path)
    (chart / "templates" / "wrong.yaml").write_text(text)
    assert says in told(chart)
