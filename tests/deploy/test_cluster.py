"""A real API server takes what the charts and inject make, and its policies do what they say.

`make test-cluster` builds it; the rest of the tests do without.
"""

from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from halfhitch_cli.app import OK, main
from harness.admission import admitted
from harness.chart_values import CHANGES, CHART, CI, LIBRARY, values
from harness.charts import merged, parent_chart, rendered
from harness.cluster import Cluster, Rejected, namespace
from harness.injected import ANNOTATIONS, LABEL, PODS, asking, chart, comparable, inject
from harness.injected import CHANGES as POLICY_CHANGES
from harness.injected import VALUES as INJECTION
from harness.manifests import MANIFESTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.charts import Object

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

FLAGS = ("--kafka-bootstrap", "kafka:9092", "--handle-key-file", "secret:halfhitch/handle-key")
_NEW = {"kubeVersion": "1.36"}
_ON_ITS_PORT = {"name": "app", "image": "a:1", "ports": [{"containerPort": 8340}]}
_ELSEWHERE = {
    "name": "app",
    "image": "a:1",
    "env": [{"name": "HALFHITCH_ADDRESS", "value": "https://coordinator:8340"}],
}
_IN_ITS_PLACE = {
    "name": "app",
    "image": "a:1",
    "volumeMounts": [{"name": "d", "mountPath": "/run/halfhitch"}],
}
_TOKEN_PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        # Accounts that some values take for granted.
        for one in (*namespace("shop", "kafka", "kafka-user"), *namespace("other")):
            running.apply(one)
        yield running


@pytest.fixture(scope="module")
def policed(cluster: Cluster) -> Iterator[Cluster]:
    """With the chart's policies, and obeying them."""
    objects = chart()
    for one in objects:
        cluster.apply(one)
    cluster.await_true(lambda: obeyed(cluster))
    yield cluster
    for one in objects:
        cluster.delete(one)


def obeyed(cluster: Cluster) -> bool:
    """Whether both policies are known; one may be before the other."""
    wrong = asking(PODS["plain"], {"halfhitch/no.setting": "1"})

    try:
        found = cluster.create(asking(PODS["plain"]), dry_run=True)
    except Rejected:
        return False
    try:
        cluster.create(wrong, dry_run=True)
    except Rejected:
        return "initContainers" in found["spec"]
    return False


def without_token(pod: Object) -> Object:
    """The server calls the volume of a token as it likes."""
    return merged(pod, {"spec": {"automountServiceAccountToken": False}})


def taken(cluster: Cluster, objects: list[Object]) -> int:
    """How many it has taken. It has no kinds of Prometheus Operator; tests/deploy/test_charts.py
    judges those by schemas."""
    known = [one for one in objects if one["apiVersion"] != "monitoring.coreos.com/v1"]
    # The pod of `helm test` runs as the account of the release, which must be there for that.
    for one in sorted(known, key=lambda one: one["kind"] != "ServiceAccount"):
        assert cluster.knows(one), f"{one['apiVersion']} {one['kind']}"
        cluster.apply(one, dry_run=one["kind"] != "ServiceAccount")
    return len(known)


@pytest.mark.parametrize("change", CHANGES)
def test_it_takes_the_chart(change: str, cluster: Cluster) -> None:
    objects = rendered(CHART, merged(values("mesh"), CHANGES[change], _NEW))
    assert taken(cluster, objects) or change == "no coordinators"


@pytest.mark.parametrize("name", CI)
def test_it_takes_the_values_for_ci(name: str, cluster: Cluster) -> None:
    assert taken(cluster, rendered(CHART, {**values(name), **_NEW}))


def test_helm_tells_which_secret_or_key_the_cluster_has_not(cluster: Cluster) -> None:
    """Their pods would wait for them, and the Job of the topics with them, without a word."""
    import helm_python

    def refusal(place: str = "shop", **given: object) -> str:
        with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace=place) as helm:
            try:
                helm.install(CHART, "real", merged(values("mesh"), given), dry_run="server")
            except helm_python.HelmError as error:
                return str(error)
        return ""

    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "halfhitch"}}
    assert "no secret halfhitch in namespace shop" in refusal()
    cluster.apply({**secret, "stringData": {"handle-key": "k"}})
    assert "has no key auth-tokens" in refusal()
    for more in ({"checkSecrets": False}, {"topics": {"init": False}}):
        assert refusal(**more) == ""
    assert refusal("nowhere") == "", "a namespace that is made with the release has nothing yet"
    cluster.apply({**secret, "stringData": {"handle-key": "k", "auth-tokens": "t"}})
    assert refusal() == ""
    cluster.delete(secret)


def test_an_upgrade_to_autoscaling_stopped_all_instances_but_one(cluster: Cluster) -> None:
    """The number that Helm had given was left out, and became 1 until the autoscaler looked."""
    import helm_python

    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "real-halfhitch", "namespace": "shop"},
    }
    given = merged(values("mesh"), {"topics": {"init": False}}, {"coordinators": {"replicas": 5}})
    by_itself: Object = {"autoscaling": {"enabled": True}}
    more: Object = {"autoscaling": {"minReplicas": 6}, "podLabels": {"a": "b"}}
    with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace="shop") as helm:

        def count(*changes: Object, first: bool = False) -> object:
            upgrade = helm.install if first else helm.upgrade
            upgrade(CHART, "real", merged(given, *changes))
            return cluster.read(stateful)["spec"]["replicas"]

        assert count(first=True) == 5
        assert [count(by_itself), count(by_itself, more)] == [5, 6]
        helm.uninstall("real")
        assert count(by_itself, first=True) == 3
        assert count() == 5
        helm.uninstall("real")


def test_a_value_that_an_older_chart_had_not_is_told_after_reuse_values(
    cluster: Cluster, tmp_path: Path
) -> None:
    import helm_python

    older = tmp_path / "halfhitch"
    shutil.copytree(CHART, older)
    file = older / "values.yaml"
    file.write_text(file.read_text().replace("  deadlineSeconds: 300\n", ""))
    needed = older / "templates" / "_needed.tpl"
    needed.write_text(needed.read_text().replace("topics.deadlineSeconds: 300\n", ""))
    given = merged(values("mesh"), {"topics": {"init": False}})
    with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace="shop") as helm:
        helm.install(older, "real", given)
        with pytest.raises(helm_python.HelmError, match="deadlineSeconds is null or missing"):
            helm.upgrade(CHART, "real", {}, reuse_values=True)
        helm.upgrade(CHART, "real", given)
        helm.uninstall("real")


@pytest.mark.parametrize("change", POLICY_CHANGES)
def test_it_takes_the_policies(change: str, cluster: Cluster) -> None:
    """Their CEL is compiled by it, with its types and its limits of cost."""
    assert taken(cluster, chart(POLICY_CHANGES[change])) >= 4


def test_two_releases_put_sidecars_into_the_same_pods() -> None:
    """One of them won, and nobody knew which. A cluster of its own: other tests have policies."""
    import helm_python

    def selecting(team: str) -> Object:
        selector = {"matchLabels": {"team": team}} if team else {}
        policy = {"enabled": True, "namespaceSelector": selector}
        return merged(INJECTION, {"checkSecrets": False, "injection": {"policy": policy}})

    with Cluster() as cluster:
        for one in (*namespace("shop"), *namespace("other")):
            cluster.apply(one)

        def refusal(team: str) -> str:
            with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace="other") as helm:
                try:
                    helm.install(CHART, "two", selecting(team), dry_run="server")
                except helm_python.HelmError as error:
                    return str(error)
            return ""

        with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace="shop") as helm:
            helm.install(CHART, "one", selecting("sales"))
            helm.upgrade(CHART, "one", selecting("sales"))
            said = "(release one in namespace shop) looks at pods of the same namespaces"
            assert said in refusal("")
            assert said in refusal("sales")
            assert refusal("stock") == ""
            helm.upgrade(CHART, "one", selecting(""))
            assert said in refusal("stock")
            helm.uninstall("one")
        assert refusal("") == ""


def test_after_an_uninstall_and_an_install_no_pod_could_be_made() -> None:
    """The parameters of the policy were not found again until the server was started anew
    (Kubernetes 130887). A cluster of its own: other tests have policies."""
    with Cluster() as cluster:
        for one in namespace("shop"):
            cluster.apply(one)
        for number in range(3):
            for one in chart():
                cluster.apply(one)
            cluster.await_true(lambda: obeyed(cluster))
            asked = merged(asking(PODS["plain"]), {"metadata": {"name": f"pod-{number}"}})
            made = cluster.create(without_token(asked))
            assert [one["name"] for one in made["spec"]["initContainers"]] == ["halfhitch"]
            for one in chart():
                cluster.delete(one)
            # Else the next round could ask the policy of this one.
            cluster.await_true(lambda: not asks(cluster))


def asks(cluster: Cluster) -> bool:
    """Whether a policy puts sidecars into pods."""
    try:
        return "initContainers" in cluster.create(asking(PODS["plain"]), dry_run=True)["spec"]
    except Rejected:
        return True


@pytest.mark.parametrize("change", LIBRARY)
def test_it_takes_what_the_library_makes(change: str, cluster: Cluster, tmp_path: Path) -> None:
    given = {"halfhitch-sidecar": {**LIBRARY[change], **_NEW}}
    assert taken(cluster, rendered(parent_chart(tmp_path), given)) == 1


@pytest.mark.parametrize("name", MANIFESTS)
def test_it_takes_what_inject_makes_and_twice_is_once(
    name: str, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for text in (MANIFESTS[name], None):
        file = tmp_path / "manifests.yaml"
        file.write_text(texts[-1] if text is None else text)
        assert main(["inject", "-f", str(file), *FLAGS]) == OK
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    objects = [one for one in yaml.safe_load_all(texts[0]) if one is not None]
    flat = [each for one in objects for each in (one["items"] if one["kind"] == "List" else [one])]
    assert taken(cluster, flat) == len(flat)


def test_it_refuses_what_is_wrong(cluster: Cluster) -> None:
    """Else all of the above would say nothing."""
    wrong = merged(PODS["plain"], {"spec": {"contaners": []}})
    with pytest.raises(Rejected, match="contaners"):
        cluster.apply(wrong, dry_run=True)
    policy = next(one for one in chart() if one["kind"] == "MutatingAdmissionPolicy")
    policy = copy.deepcopy(policy)
    policy["spec"]["variables"][0]["expression"] = "object.metadata.annotations +"
    with pytest.raises(Rejected, match="Syntax error"):
        cluster.apply(policy, dry_run=True)


@pytest.mark.parametrize("annotations", ANNOTATIONS)
@pytest.mark.parametrize("pod", PODS)
def test_a_pod_that_asks_comes_back_as_inject_and_cel_python_have_it(
    pod: str, annotations: str, policed: Cluster
) -> None:
    """All three are given to the server, which adds the same to each."""
    asked = without_token(asking(PODS[pod], ANNOTATIONS[annotations]))
    found, by_hand, by_python = (
        comparable(policed.create(each, dry_run=True))
        for each in (asked, inject(asked), admitted(chart(), asked))
    )
    assert found == by_hand == by_python
    assert found["spec"]["initContainers"][0]["restartPolicy"] == "Always"


def test_a_large_pod_costs_no_more_than_the_server_lets_it(policed: Cluster) -> None:
    """It bounds what the expressions of a policy may compute, and refuses a pod beyond that."""
    each = {
        "image": "a:1",
        "env": [{"name": f"NAME_{number}", "value": "v" * 40} for number in range(60)],
        "ports": [{"containerPort": number} for number in range(1_000, 1_060)],
        "volumeMounts": [{"name": "d", "mountPath": f"/srv/{number}"} for number in range(30)],
    }
    asked = without_token(asking(PODS["with-a-group"], ANNOTATIONS["options"]))
    asked["spec"]["containers"] = [{**each, "name": f"app-{number}"} for number in range(20)]
    asked["spec"]["volumes"] = [{"name": "d", "emptyDir": {}}]
    found = policed.create(asked, dry_run=True)
    assert comparable(found) == comparable(policed.create(inject(asked), dry_run=True))


def test_a_pod_that_does_not_ask_is_made_unchanged(policed: Cluster) -> None:
    for asked in (
        PODS["several"],
        asking(PODS["several"], value="false"),
        asking(PODS["several"], {"halfhitch/inject": "false"}),
    ):
        found = policed.create(asked, dry_run=True)
        assert "halfhitch" not in str([found["spec"].get("volumes"), found["spec"]])
        assert found["metadata"]["labels"] == asked["metadata"]["labels"]


def test_a_pod_is_made_with_the_sidecar_and_its_copy_has_one(policed: Cluster) -> None:
    made = policed.create(without_token(asking(PODS["several"])))
    names = [one["name"] for one in made["spec"]["initContainers"]]
    assert names == ["halfhitch", "migrate", "mesh"]
    kept = {"name": "copy", "labels": made["metadata"]["labels"]}
    copied = policed.create({**made, "metadata": kept, "status": {}})
    assert comparable(copied) == comparable(made)
    for one in (made, copied):
        policed.delete(one)


def test_whoever_was_injected_by_hand_is_left_alone(policed: Cluster) -> None:
    by_hand = inject(without_token(PODS["several"]))
    without = policed.create(by_hand, dry_run=True)
    by_hand["metadata"]["labels"][LABEL] = "true"
    asked = policed.create(by_hand, dry_run=True)
    assert comparable(asked)["spec"] == comparable(without)["spec"]


@pytest.mark.parametrize(
    ("annotations", "spec", "says"),
    [
        ({"halfhitch/checks.intervl_s": "1"}, {}, "halfhitch/checks.intervl_s is no setting"),
        ({"halfhitch/redis.url": "redis://r:1"}, {}, "halfhitch/redis.url_file: secret:NAME/KEY"),
        ({"halfhitch/kafka.options": "sasl.password=x"}, {}, "kafka.options has sasl.password"),
        ({"halfhitch/handle.key_file": "/etc/key"}, {}, "must be secret:NAME/KEY"),
        ({"halfhitch/log.level": "loud"}, {}, "halfhitch/log.level cannot be loud"),
        ({"halfhitch/transprot": "tcp"}, {}, "halfhitch/transprot is none of Half Hitch"),
        (
            {"halfhitch/kafka.options": "sasl.username=secret:a/b"},
            {},
            "has sasl.username as secret",
        ),
        ({"halfhitch/kafka.options": "acks=1"}, {}, "none of the options that the client"),
        ({"halfhitch/http.port": "8341"}, {}, "Two of the sidecar's doors have one port"),
        ({"halfhitch/memory-limit": "512MB"}, {}, "halfhitch/memory-limit cannot be 512MB: give"),
        (
            {"halfhitch/memory-limit": "512m", "halfhitch/memory-request": "none"},
            {},
            "which is too little for a sidecar: give 64Mi",
        ),
        ({"halfhitch/memory-limit": "64Mi"}, {}, "asks for more memory than its limit"),
        ({"halfhitch/memory-request": "1Gi"}, {}, "asks for more memory than its limit"),
        ({"halfhitch/cpu-limit": "0.01"}, {}, "asks for more cpu than its limit"),
        ({}, {"hostNetwork": True}, "uses the host's network"),
        ({}, {"os": {"name": "windows"}}, "runs on Windows"),
        ({}, {"terminationGracePeriodSeconds": 1}, "terminationGracePeriodSeconds to 7"),
        (
            {},
            {"volumes": [{"name": "halfhitch-secrets", "emptyDir": {}}]},
            "a volume named as one of the sidecar's",
        ),
        (
            {"halfhitch/transport": "socket"},
            {"containers": [_IN_ITS_PLACE], "volumes": [{"name": "d", "emptyDir": {}}]},
            "mounted where the sidecar's socket is to be",
        ),
        (
            {},
            {"initContainers": [{**_ON_ITS_PORT, "name": "own"}]},
            "has a port of one of the sidecar's doors",
        ),
        ({}, {"containers": [_ON_ITS_PORT]}, "has a port of one of the sidecar's doors"),
        ({}, {"containers": [_ELSEWHERE]}, "has a HALFHITCH_ADDRESS of its own"),
        ({}, {"containers": [{"name": "halfhitch", "image": "x"}]}, "was not injected: rename it"),
    ],
)
def test_what_is_refused_comes_with_its_sentence(
    annotations: dict[str, str], spec: Object, says: str, policed: Cluster
) -> None:
    asked = merged(asking(PODS["plain"], annotations), {"spec": spec})
    with pytest.raises(Rejected, match="halfhitch") as refused:
        policed.create(asked, dry_run=True)
    assert says in str(refused.value)


def test_a_label_with_a_word_that_no_policy_hears_is_refused(policed: Cluster) -> None:
    with pytest.raises(Rejected, match="halfhitch/inject is yes, which brings no sidecar"):
        policed.create(asking(PODS["plain"], value="yes"), dry_run=True)
    copied = merged(PODS["plain"], {"metadata": {"labels": {"halfhitch/sidecar": "native"}}})
    found = policed.create(asking(copied), dry_run=True)
    assert found["spec"]["initContainers"][0]["name"] == "halfhitch"


def test_a_pod_of_another_namespace_than_the_release_may_ask(policed: Cluster) -> None:
    elsewhere = merged(asking(PODS["plain"]), {"metadata": {"namespace": "other"}})
    found = policed.create(elsewhere, dry_run=True)
    assert found["spec"]["initContainers"][0]["name"] == "halfhitch"


def test_the_pods_token_was_mounted_into_the_sidecar(policed: Cluster) -> None:
    """The server does that to every container that has nothing in that place."""
    for asked in (asking(PODS["several"]), inject(PODS["several"])):
        spec = policed.create(asked, dry_run=True)["spec"]
        for one in (*spec["initContainers"], *spec["containers"]):
            (volume,) = [m["name"] for m in one["volumeMounts"] if m["mountPath"] == _TOKEN_PLACE]
            assert (volume == "halfhitch-no-token") == (one["name"] == "halfhitch")
