"""The chart's policies: pods that ask get the sidecar of `halfhitch inject`, or its sentence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import celpy
import pytest

from halfhitch.config import SETTINGS
from halfhitch.errors import ConfigurationError
from harness.admission import Refused, admitted
from harness.charts import CHARTS, merged, pod_specs, rendered, told, unrestricted, wrong_objects
from harness.injected import (
    ANNOTATIONS,
    CHANGES,
    PODS,
    VALUES,
    asking,
    by_policy,
    chart,
    comparable,
    inject,
)

if TYPE_CHECKING:
    from harness.charts import Object

CHART = CHARTS / "halfhitch"
_ON_ITS_PORT = {"name": "app", "image": "a:1", "ports": [{"containerPort": 8340}]}
_ELSEWHERE = {
    "name": "app",
    "image": "a:1",
    "env": [{"name": "A"}, {"name": "HALFHITCH_ADDRESS", "value": "https://coordinator:8340"}],
}


_MOUNTED: dict[str, dict[str, Any]] = {
    "secrets": {"volumes": [{"name": "halfhitch-secrets", "secret": {"secretName": "mine"}}]},
    "ours": {
        "containers": [
            {
                "name": "app",
                "image": "a:1",
                "volumeMounts": [{"name": "halfhitch-secrets", "mountPath": "/x"}],
            }
        ],
    },
    "socket": {
        "securityContext": {"fsGroup": 1},
        "volumes": [{"name": "d", "emptyDir": {}}],
        "containers": [
            {
                "name": "app",
                "image": "a:1",
                "volumeMounts": [{"name": "d", "mountPath": "/run/halfhitch/"}],
            }
        ],
    },
}


#: Each of either at least once; what is left is long. (An expression takes seconds in Python.)
_PAIRS = [
    pytest.param(pod, annotations, marks=[pytest.mark.long] if (of_pod - at) % len(PODS) else [])
    for at, annotations in enumerate(ANNOTATIONS)
    for of_pod, pod in enumerate(PODS)
]


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    return chart()


@pytest.mark.parametrize("change", CHANGES)
def test_the_policies_are_valid_and_their_sidecar_is_restricted(change: str) -> None:
    found = chart(CHANGES[change])
    assert wrong_objects(found, "1.36") == []
    assert [line for pod in pod_specs(found) for line in unrestricted(*pod)] == []
    pod = admitted(found, asking(PODS["plain"]))
    assert wrong_objects([pod], "1.36") == []
    assert list(unrestricted("pod", pod["spec"], only="halfhitch")) == []
    names = [(one["kind"], one["metadata"]["name"]) for one in found]
    assert len(set(names)) == len(names)
    assert all(len(name) <= (253 if "Policy" in kind else 63) for kind, name in names)


def test_without_coordinators_nothing_runs() -> None:
    assert {one["kind"] for one in chart()} == {
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_time_that_no_coordinator_needs_was_asked_for() -> None:
    assert chart({"terminationGracePeriodSeconds": 10}) == chart()


@pytest.mark.parametrize(("pod", "annotations"), _PAIRS)
def test_a_pod_that_asks_gets_the_sidecar_of_inject(
    pod: str, annotations: str, objects: list[Object]
) -> None:
    asked = asking(PODS[pod], ANNOTATIONS[annotations])
    found = admitted(objects, asked)
    assert comparable(found) == comparable(inject(asked))
    assert wrong_objects([found], "1.36") == []


def test_twice_injected_is_once_whoever_was_first(objects: list[Object]) -> None:
    asked = asking(PODS["several"])
    once = admitted(objects, asked)
    assert admitted(objects, once) == once
    by_hand = inject(asked)
    assert admitted(objects, by_hand) == by_hand
    assert comparable(inject(once)) == comparable(once)


def test_a_label_that_was_copied_kept_the_sidecar_out(objects: list[Object]) -> None:
    asked = merged(asking(PODS["plain"]), {"metadata": {"labels": {"halfhitch/sidecar": "native"}}})
    found = admitted(objects, asked)
    assert comparable(found) == comparable(inject(asked))
    assert admitted(objects, found) == found
    mounts = {"volumes": [{"name": "halfhitch-socket", "emptyDir": {}}]}
    assert comparable(admitted(objects, merged(asked, {"spec": mounts}))) == comparable(found)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"containers": [{"name": "halfhitch", "image": "x"}]}, "was not injected: rename it"),
        (
            {"initContainers": [{"name": "halfhitch", "image": "x", "args": ["sell"]}]},
            "was not injected: rename it",
        ),
        (_MOUNTED["secrets"], "a volume named as one of the sidecar's"),
    ],
)
def test_a_label_that_was_copied_let_things_of_the_users_pass(
    spec: Object, says: str, objects: list[Object]
) -> None:
    labels = {"metadata": {"labels": {"halfhitch/sidecar": "native"}}}
    asked = merged(asking(PODS["plain"]), labels, {"spec": spec})
    with pytest.raises(ConfigurationError, match="was not injected"):
        inject(asked)
    with pytest.raises(Refused) as refused:
        admitted(objects, asked)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "pod",
    [
        PODS["plain"],
        asking(PODS["plain"], value="false"),
        asking(PODS["plain"], value="Off"),
        asking(PODS["plain"], {"halfhitch/inject": "false", "halfhitch/no.setting": "1"}),
        asking(PODS["plain"], {"halfhitch/inject": "Off"}),
        asking(PODS["plain"], {"kubernetes.io/config.mirror": "a"}),
    ],
)
def test_a_pod_that_does_not_ask_stays_as_it_is(pod: Object, objects: list[Object]) -> None:
    assert admitted(objects, pod) == pod


def test_the_charts_transport_counts_where_a_pod_says_none() -> None:
    asked = asking(PODS["with-a-group"])
    found = admitted(chart({"injection": {"transport": "tcp"}}), asked)
    assert found["spec"]["containers"][0]["env"][0]["value"] == "http://127.0.0.1:8340"
    by_port = chart({"injection": {"transport": "tcp", "settings": {"http": {"port": 1}}}})
    found = admitted(by_port, asked)
    assert found["spec"]["containers"][0]["env"][0]["value"] == "http://127.0.0.1:1"


def test_the_charts_readiness_counts_where_a_pod_says_none() -> None:
    objects = chart({"injection": {"readiness": False}})
    asked = asking(PODS["plain"])
    assert "readinessProbe" not in admitted(objects, asked)["spec"]["initContainers"][0]
    asked = asking(PODS["plain"], {"halfhitch/readiness": "true"})
    assert "readinessProbe" in admitted(objects, asked)["spec"]["initContainers"][0]


def test_amounts_that_the_chart_has_not_are_put_in_and_taken_out() -> None:
    def resources(amounts: object, **own: str) -> object:
        objects = chart({"injection": {"resources": amounts}})
        annotations = {f"halfhitch/{name.replace('_', '-')}": text for name, text in own.items()}
        found = admitted(objects, asking(PODS["plain"], annotations))
        return found["spec"]["initContainers"][0]["resources"]

    nothing = {"limits": None, "requests": None}
    assert resources(nothing, cpu_limit="1") == {"limits": {"cpu": "1"}}
    assert resources(nothing, cpu_limit="none") == {"limits": {}}  # which an API server drops
    more = {"limits": {"ephemeral-storage": "1Gi", "cpu": 0.5}}
    assert resources(more, memory_limit="none", cpu_limit="none") == {
        "limits": {"ephemeral-storage": "1Gi"},
        "requests": {"cpu": "50m", "memory": "96Mi"},
    }


def test_two_doors_of_a_sidecar_on_one_port_are_told() -> None:
    for settings in (
        {"http": {"port": 8341}},
        {"admin": {"port": 8340}},
        {"rocketmq": {"enabled": True, "port": 8340}},
    ):
        found = told(CHART, merged(VALUES, {"injection": {"settings": settings}}))
        assert "two doors one port" in found


def test_locks_of_the_coordinators_doors_are_none_of_the_sidecars() -> None:
    spec = str(by_policy(chart()))
    assert "auth-tokens" not in spec
    assert "AUTH" not in spec


@pytest.mark.parametrize(
    ("annotations", "spec", "says"),
    [
        ({"halfhitch/checks.intervl_s": "1"}, {}, "halfhitch/checks.intervl_s is no setting"),
        ({"halfhitch/http.host": "::"}, {}, "doors are on the pod's loopback"),
        ({"halfhitch/http.socket": "/x"}, {}, "use halfhitch/transport: socket"),
        ({"halfhitch/instance.id": "a"}, {}, "it is the name of the pod"),
        ({"halfhitch/redis.url": "redis://r:1"}, {}, "halfhitch/redis.url_file: secret:NAME/KEY"),
        ({"halfhitch/auth.tokens": "x" * 32}, {}, "halfhitch/auth.token_file: secret:NAME/KEY"),
        ({"halfhitch/kafka.options": "sasl.password=x"}, {}, "kafka.options has sasl.password"),
        ({"halfhitch/handle.key_file": "/etc/key"}, {}, "must be secret:NAME/KEY"),
        ({"halfhitch/log.level": "loud"}, {}, "halfhitch/log.level cannot be loud"),
        ({"halfhitch/transprot": "tcp"}, {}, "annotation halfhitch/transprot is none of Half Hi"),
        ({"halfhitch/Inject": "false"}, {}, "annotation halfhitch/Inject is none of Half Hitch's"),
        ({"halfhitch/checks.interval_s": "soon"}, {}, "checks.interval_s cannot be soon"),
        ({"halfhitch/topics.create": "perhaps"}, {}, "topics.create cannot be perhaps"),
        ({"halfhitch/transport": "pigeon"}, {}, "must be auto, socket or tcp"),
        ({"halfhitch/readiness": "no"}, {}, "must be true or false"),
        ({"halfhitch/memory-limit": "512MB"}, {}, "memory-limit cannot be 512MB: give an amount"),
        ({"halfhitch/cpu-request": "half"}, {}, "such as 250m or 0.5, or none."),
        ({"halfhitch/memory-limit": "512m"}, {}, "which is too little for a sidecar: give 64Mi or"),
        ({"halfhitch/memory-request": "1Gi"}, {}, "asks for more memory than its limit: annotate"),
        ({"halfhitch/cpu-limit": "10m"}, {}, "a higher halfhitch/cpu-limit or a lower halfhitch/c"),
        ({}, {"containers": [_ELSEWHERE]}, "has a HALFHITCH_ADDRESS of its own"),
        ({}, {"initContainers": [_ELSEWHERE]}, "has a HALFHITCH_ADDRESS of its own"),
        ({}, {"hostNetwork": True}, "uses the host's network"),
        ({}, {"os": {"name": "windows"}}, "runs on Windows"),
        ({}, {"nodeSelector": {"kubernetes.io/os": "windows"}}, "runs on Windows"),
        ({}, {"terminationGracePeriodSeconds": 6}, "terminationGracePeriodSeconds to 7 and what"),
        ({}, _MOUNTED["secrets"], "a volume named as one of the sidecar's (halfhitch-socket,"),
        ({}, _MOUNTED["socket"], "mounted where the sidecar's socket is to be"),
        ({}, {"initContainers": [_ON_ITS_PORT]}, "has a port of one of the sidecar's doors"),
        (
            {"halfhitch/rocketmq.enabled": "true", "halfhitch/rocketmq.port": "8339"},
            {"containers": [{**_ON_ITS_PORT, "ports": [{"containerPort": 8339}]}]},
            "has a port of one of the sidecar's doors",
        ),
        ({}, _MOUNTED["ours"], "mounts halfhitch-secrets, the secrets of the sidecar"),
        ({"halfhitch/http.port": "0"}, {}, "halfhitch/http.port cannot be 0"),
        ({"halfhitch/http.port": "65536"}, {}, "halfhitch/http.port cannot be 65536"),
        ({"halfhitch/http.port": "8341"}, {}, "Two of the sidecar's doors have one port"),
        ({}, {"containers": [_ON_ITS_PORT]}, "has a port of one of the sidecar's doors"),
        ({}, {"containers": [{"name": "halfhitch", "image": "x"}]}, "was not injected: rename it"),
        (
            {},
            {"initContainers": [{"name": "halfhitch", "image": "x"}]},
            "was not injected: rename it",
        ),
    ],
)
def test_what_inject_refuses_is_refused_with_a_sentence(
    annotations: dict[str, str], spec: dict[str, Any], says: str, objects: list[Object]
) -> None:
    asked = merged(asking(PODS["plain"], annotations), {"spec": spec})
    with pytest.raises(ConfigurationError):
        inject(asked)
    with pytest.raises(Refused) as refused:
        admitted(objects, asked)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("sasl.password=secret:kafka/password", "kafka.options has sasl.password, a secret"),
        (" sasl.password=secret:kafka/password", "kafka.options has sasl.password, a secret"),
        ("client.rack=a,\tsasl.password=hunter2", "kafka.options has sasl.password, a secret"),
        ("client.rack=a, sasl.password =hunter2", "kafka.options has sasl.password, a secret"),
        ("client.rack=a,SASL.PASSWORD=hunter2", "has SASL.PASSWORD, which is none of the"),
        ("sasl.username=secret:kafka/user", "has sasl.username as secret:NAME/KEY, and it names"),
        ("security.protocol=SSL,ssl.cipher.suites=secret:a/b", "the path would become its value"),
        ("acks=1", "kafka.options has acks, which is none of the options"),
        ("security.protocol=SSL,ssl.crl.location=secret:a/b,c", "must be name=value,name=value"),
        ("lz4", "must be name=value,name=value"),
    ],
)
def test_the_path_of_a_secret_was_the_password(
    options: str, says: str, objects: list[Object]
) -> None:
    asked = asking(PODS["plain"], {"halfhitch/kafka.options": options})
    with pytest.raises(ConfigurationError):
        inject(asked)
    with pytest.raises(Refused) as refused:
        admitted(objects, asked)
    assert says in str(refused.value)
    (mutating,) = [one for one in objects if one["kind"] == "MutatingAdmissionPolicy"]
    alone = [one for one in objects if not one["kind"].startswith("Validating")]
    assert mutating in alone
    assert "=/etc/halfhitch/secrets/sasl" not in str(admitted(alone, asked))


def test_a_label_with_a_word_that_no_policy_hears_passed_in_silence(
    objects: list[Object],
) -> None:
    for value in ("True", "yes", "1", "perhaps", ""):
        with pytest.raises(Refused, match=f"halfhitch/inject is {value}, which brings no sidecar"):
            admitted(objects, asking(PODS["plain"], value=value))
    asked = merged(asking(PODS["plain"]), {"metadata": {"labels": {"halfhitch/injct": "true"}}})
    with pytest.raises(Refused, match="The label halfhitch/injct is none of Half Hitch's, which"):
        admitted(objects, asked)


def test_two_releases_had_policies_of_one_name() -> None:
    names = {
        (one["kind"], one["metadata"]["name"])
        for release, place in (("halfhitch-a", "b"), ("halfhitch", "a-b"))
        for one in rendered(CHART, VALUES, name=release, namespace=place)
        if "Policy" in one["kind"]
    }
    assert len(names) == 8


def test_an_annotation_that_is_neither_yes_nor_no_is_refused(objects: list[Object]) -> None:
    with pytest.raises(Refused, match="halfhitch/inject must be true or false"):
        admitted(objects, asking(PODS["plain"], {"halfhitch/inject": "disabled"}))


@pytest.mark.parametrize("amount", ["512MB", "64Mi"])
def test_the_server_refused_an_amount_before_the_policy_could_say_the_cure(
    amount: str, objects: list[Object]
) -> None:
    """It judges the pod that comes out of the one policy before it asks the other."""
    mutating = [one for one in objects if one["kind"].startswith("Mutating")]
    found = admitted(mutating, asking(PODS["plain"], {"halfhitch/memory-limit": amount}))
    assert found["spec"]["initContainers"][0]["resources"]["limits"] == {"memory": "512Mi"}


def test_a_mount_of_the_users_stays_where_there_is_no_socket(objects: list[Object]) -> None:
    spec = {**_MOUNTED["socket"]}
    del spec["securityContext"]
    asked = merged(asking(PODS["plain"]), {"spec": spec})
    found = admitted(objects, asked)
    assert comparable(found) == comparable(inject(asked))
    mounts = found["spec"]["containers"][0]["volumeMounts"]
    assert mounts == spec["containers"][0]["volumeMounts"]


def test_options_as_json_are_refused_for_files_could_not_be_put_in(objects: list[Object]) -> None:
    asked = asking(PODS["plain"], {"halfhitch/kafka.options": '{"compression.type":"lz4"}'})
    with pytest.raises(Refused, match="name=value,name=value"):
        admitted(objects, asked)


#: A value for settings without a default, and for those whose default an annotation cannot say.
_SAMPLES = {
    "kafka.bootstrap": "k:1",
    "audit.replication_factor": "2",
    "kafka.msk_iam_region": "eu-central-1",
    "kafka.options": "compression.type=lz4",
    "rocketmq.advertised": "a:1",
    "client.server_name": "a",
    "checks.url": "https://a.example/",
    "http.hosts": "a.example",
    "topics.allow": "a",
    "checks.give_up_topics": "a",
    "checks.url_groups": "a",
    "checks.url_networks": "10.0.0.0/8",
    "topics.prefix": "a",
}


def test_every_setting_is_an_annotation(objects: list[Object]) -> None:
    """One that is new in the table is new here at once."""
    own: dict[str, str] = {}
    for setting in SETTINGS:
        if setting.is_secret or setting.key.endswith((".host", ".socket", "instance.id")):
            continue
        default = setting.default
        if setting.metavar == "PATH":
            text = f"secret:{setting.key.replace('.', '-').replace('_', '-')}/key"
        elif setting.key in _SAMPLES:
            text = _SAMPLES[setting.key]
        elif isinstance(default, bool):
            text = str(not default).lower()
        else:
            text = str(default)
        own[f"halfhitch/{setting.key}"] = text
    asked = asking(PODS["plain"], own)
    (sidecar,) = admitted(objects, asked)["spec"]["initContainers"]
    told_of = {one["name"] for one in sidecar["env"]}
    assert {s.env for s in SETTINGS if f"halfhitch/{s.key}" in own} <= told_of


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"kubeVersion": "1.35"},
            "needs Kubernetes 1.36 (MutatingAdmissionPolicy), and this cluster is 1.35: set it",
        ),
        ({"injection": {"policy": {"failurePolicy": "Perhaps"}}}, "failurePolicy"),
        ({"injection": {"transport": "pigeon"}}, "/injection/transport"),
        ({"injection": {"settings": {"log": {"level": "loud"}}}}, "/injection/settings/log/level"),
        (
            {"injection": {"settings": {"handle": {"key_file": "x"}}}},
            "injection.settings.handle.key_file cannot be given here: use secrets.handleKey",
        ),
        ({"injection": {"settings": {"http": {"port": 0}}}}, "injection.settings.http.port is 0"),
        ({"injection": {"settings": {"http": {"host": "::"}}}}, "on the pod's loopback"),
        ({"injection": {"settings": {"http": {"socket": "/x"}}}}, "injection.transport"),
        (
            {"injection": {"settings": {"http": {"tls_cert": "/x"}}}},
            "the annotation halfhitch/http.tls_cert of a pod",
        ),
        (
            {"injection": {"settings": {"kafka": {"options": {"sasl.password": "x"}}}}},
            "injection.settings.kafka.options has sasl.password",
        ),
        ({"settings": {"kafka": {"bootstrap": ""}}}, "settings.kafka.bootstrap is not set"),
    ],
)
def test_what_is_wrong_with_values_is_told_with_the_cure(change: Object, says: str) -> None:
    assert says in told(CHART, merged(VALUES, change))


def test_after_an_uninstall_and_an_install_the_policy_missed_its_parameters() -> None:
    """Until its API server was started anew, so the policy has none."""
    for change in CHANGES.values():
        for one in chart(change):
            if "Policy" in one["kind"]:
                assert not {"paramKind", "paramRef"} & set(one["spec"])
                assert "params." not in str(one["spec"])


def test_texts_of_values_stay_as_they_are_in_the_policy() -> None:
    texts = ["a'b\"c", "\\", "{{ }}", "<&>", "\u00fc \U0001f600", "$(A)", "// a", "%s"]
    for text in texts:
        options = {"client.rack": text}
        found = by_policy(chart({"injection": {"settings": {"kafka": {"options": options}}}}))
        (told_of,) = [
            one["value"]
            for one in found["initContainers"][0]["env"]
            if one["name"] == "HALFHITCH_KAFKA_OPTIONS"
        ]
        assert json.loads(told_of)["client.rack"] == text


@pytest.mark.parametrize(
    "variables",
    [
        [
            {"name": "one", "expression": "object.metadata.name"},
            {"name": "unused", "expression": "object.(("},
        ],
        [
            {"name": "one", "expression": "variables.two"},
            {"name": "two", "expression": "object.metadata.name"},
        ],
    ],
)
def test_variables_that_no_api_server_takes_are_found(
    variables: list[dict[str, str]], objects: list[Object]
) -> None:
    """They are worked out when they are asked for, and neither mistake was seen."""
    changed = [merged(one, {}) for one in objects]
    for one in changed:
        if one["kind"] == "MutatingAdmissionPolicy":
            one["spec"] = {
                **one["spec"],
                "variables": [*variables, *one["spec"]["variables"]],
                "mutations": [{"jsonPatch": {"expression": "[JSONPatch{op: variables.one}]"}}],
            }
    with pytest.raises((celpy.CELParseError, celpy.CELEvalError, KeyError)):
        admitted(changed, asking(PODS["plain"]))
