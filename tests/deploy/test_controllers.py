"""Kubernetes' own controllers and scheduler make of the chart and the policies what they should.

There is no kubelet: the tests say of pods what one would, and no container runs.
`make test-cluster` builds what this needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.charts import merged
from harness.cluster import Cluster, Rejected, namespace
from harness.injected import CHANGES, LABEL, chart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.charts import Object

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

_COORDINATOR = "app.kubernetes.io/component=coordinator"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With the chart in it: coordinators, and policies that are obeyed."""
    with Cluster(controllers=True) as running:
        for one in (*namespace("shop"), *chart(CHANGES["with coordinators"])):
            running.apply(one)
        probe = workload("Pod", "probe")

        def is_obeyed() -> bool:
            return "initContainers" in running.create(probe, dry_run=True)["spec"]

        running.await_true(is_obeyed)
        yield running


def workload(kind: str, name: str, **annotations: str) -> Object:
    """The smallest of its kind whose pods ask for a sidecar."""
    metadata = {"labels": {"app": name, LABEL: "true"}, "annotations": annotations}
    pod: Object = {"containers": [{"name": "app", "image": "shop:1"}]}
    version, spec = "apps/v1", {"selector": {"matchLabels": {"app": name}}}
    if kind == "Pod":
        return {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop", **metadata},
            "spec": pod,
        }
    if kind == "Job":
        version, spec = "batch/v1", {}
        pod["restartPolicy"] = "Never"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {**spec, "template": {"metadata": metadata, "spec": pod}},
    }


def pods_of(cluster: Cluster, selector: str, count: int) -> list[Object]:
    """So many, each on the node: what they ask for, the sidecar's part too, is to be had."""

    def placed() -> list[Object]:
        found = cluster.all_of("v1", "Pod", selector)
        return [one for one in found if "nodeName" in one["spec"]]

    cluster.await_true(lambda: len(placed()) == count)
    return placed()


def ready(pod: Object, number: int) -> Object:
    """What a kubelet says of a pod that serves."""
    conditions = [{"type": kind, "status": "True"} for kind in ("ContainersReady", "Ready")]
    address = f"10.1.0.{number}"
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [*pod["status"].get("conditions", []), *conditions],
    }


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_what_controllers_make_of_a_template_with_the_label_has_the_sidecar(
    kind: str, cluster: Cluster
) -> None:
    one = workload(kind, f"asks-{kind.lower()}")
    if kind == "StatefulSet":
        one["spec"]["serviceName"] = "none"
    cluster.apply(one)
    (pod,) = pods_of(cluster, f"app=asks-{kind.lower()}", 1)
    (sidecar,) = pod["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("halfhitch", "Always")
    template = cluster.read(one)["spec"]["template"]["spec"]
    assert "initContainers" not in template, "the policy changes pods, not what they are made of"
    cluster.delete(one)


def test_what_is_refused_stands_where_people_look(cluster: Cluster) -> None:
    one = workload("Deployment", "wrong", **{"halfhitch/log.level": "loud"})
    cluster.apply(one)

    def said() -> list[Any]:
        sets = cluster.all_of("apps/v1", "ReplicaSet", "app=wrong")
        return [each["message"] for s in sets for each in s["status"].get("conditions", [])]

    cluster.await_true(said)
    assert "halfhitch/log.level cannot be loud" in said()[0]
    cluster.delete(one)


def test_the_controllers_find_nothing_to_warn_of_in_the_policies(cluster: Cluster) -> None:
    """They check the types of what validates, and write down what looks wrong."""
    (policy,) = [one for one in chart() if one["kind"] == "ValidatingAdmissionPolicy"]

    def checked() -> Any:
        return cluster.read(policy).get("status", {}).get("typeChecking")

    cluster.await_true(lambda: checked() is not None)
    assert checked() == {}


def test_coordinators_serve_and_one_at_a_time_may_be_away(cluster: Cluster) -> None:
    pods = pods_of(cluster, _COORDINATOR, 3)
    (budget,) = cluster.all_of("policy/v1", "PodDisruptionBudget")
    named = {**budget, "apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    assert cluster.read(named)["status"]["disruptionsAllowed"] == 0
    for number, pod in enumerate(pods, 1):
        cluster.say_of(pod, ready(pod, number))
    cluster.await_true(lambda: cluster.read(named)["status"]["disruptionsAllowed"] == 1)

    def endpoints() -> dict[str, int]:
        slices = cluster.all_of("discovery.k8s.io/v1", "EndpointSlice")
        return {
            one["metadata"]["labels"]["kubernetes.io/service-name"]: len(
                [each for each in one["endpoints"] or () if each["conditions"]["ready"]]
            )
            for one in slices
        }

    wanted = {"demo-halfhitch": 3, "demo-halfhitch-instances": 3}
    cluster.await_true(lambda: wanted.items() <= endpoints().items())
    (stateful,) = cluster.all_of("apps/v1", "StatefulSet")
    assert stateful["status"]["readyReplicas"] == 3
    cluster.evict(pods[0])
    with pytest.raises(Rejected, match="disruption budget"):
        cluster.evict(pods[1])


def test_the_job_that_makes_topics_is_done_when_its_pod_is(cluster: Cluster) -> None:
    (job,) = [
        one for one in cluster.all_of("batch/v1", "Job") if "topics" in one["metadata"]["name"]
    ]
    (pod,) = pods_of(cluster, f"batch.kubernetes.io/job-name={job['metadata']['name']}", 1)
    cluster.say_of(pod, {"phase": "Succeeded"})
    named = merged(job, {"apiVersion": "batch/v1", "kind": "Job"})
    cluster.await_true(lambda: cluster.read(named)["status"].get("succeeded") == 1)
