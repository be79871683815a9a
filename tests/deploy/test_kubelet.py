"""Real pods: Kubernetes' own kubelet starts, probes and ends the sidecar beside an application.

`make test-kubelet` builds what this needs; `make image` the image, which also stands for the
application's.
"""

from __future__ import annotations

import base64
import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pytest

import halfhitch
from halfhitch_cli.pod_settings import Given
from halfhitch_cli.sidecar_pod import Sidecar
from harness.charts import CHARTS, merged, rendered
from harness.cluster import Cluster, Rejected, namespace
from harness.injected import LABEL
from harness.kafka import create_topics, fresh_name, read_all
from harness.kubelet import Node, kafka_for_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from halfhitch.embedded import EmbeddedKafka
    from harness.charts import Object

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

IMAGE: Final = f"halfhitch:{halfhitch.__version__}"
#: The same one, as what follows on it.
NEXT: Final = "halfhitch:next"
WAIT_S: Final = 240.0
RESTRICTED: Final = "pod-security.kubernetes.io/enforce"
ENDED: Final = "ended"

#: Whoever starts before its sidecar does fails with its first line, and is not started again.
ONCE: Final = """
import os, socket, sys
socket.socket(socket.AF_UNIX).connect(os.environ["HALFHITCH_ADDRESS"].removeprefix("unix:"))
from halfhitch import TransactionProducer
with TransactionProducer("shop", answers_checks=False) as producer:
    with producer.transaction() as tx:
        tx.send(sys.argv[1], "paid")
        tx.commit(wait_visible=True)
"""
#: One after the other until it is told to end; then it tells Kafka itself how many it has
#: committed. An error ends it without that word.
FOR_EVER: Final = """
import json, signal, socket, sys, time
from confluent_kafka import Producer
from halfhitch import TransactionProducer
name, count, ends = socket.gethostname(), 0, []
signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
with TransactionProducer("shop", answers_checks=False) as producer:
    while not ends:
        with producer.transaction() as tx:
            tx.send(sys.argv[1], json.dumps([name, count]))
        count += 1
        time.sleep(0.05)
said = Producer({"bootstrap.servers": sys.argv[2]})
said.produce("ended", json.dumps([name, count]))
sys.exit(said.flush(30))
"""


class World:
    """A cluster with one node, the chart's policies, and a Kafka."""

    def __init__(self, cluster: Cluster, node: Node, kafka: EmbeddedKafka, address: str) -> None:
        self.cluster, self.node, self.kafka, self.address = cluster, node, kafka, address
        self.settings = {
            "kafka": {"bootstrap": address},
            "topics": {"create": True, "replication_factor": 1, "partitions": 2},
            "owner": {"session_timeout_ms": 6_000},
        }

    def install(self, image: str) -> None:
        """The chart with its policies alone: pods with the label get sidecars of that image."""
        repository, tag = image.split(":")
        values: Object = {
            "kubeVersion": "1.36",
            "coordinators": {"enabled": False},
            "injection": {"policy": {"enabled": True}},
            "image": {"repository": repository, "tag": tag},
            "settings": self.settings,
            "secrets": {"handleKey": {"secretName": "halfhitch"}},
        }
        for one in rendered(CHARTS / "halfhitch", values):
            self.cluster.apply(one)
        probe = self.workload("Pod", "probe", ONCE, "none")

        def is_obeyed() -> bool:
            spec = self.cluster.create(probe, dry_run=True)["spec"]
            return any(one["image"] == image for one in spec.get("initContainers", ()))

        self.cluster.await_true(is_obeyed)

    def workload(self, kind: str, name: str, program: str, topic: str) -> Object:
        """Pods of it may run where `restricted` is enforced; they ask for a sidecar."""
        container: Object = {
            "name": "app",
            "image": IMAGE,
            "command": ["python", "-c", program, topic, self.address],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        spec: Object = {
            "securityContext": {
                "runAsNonRoot": True,
                "fsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "terminationGracePeriodSeconds": 60,
        }
        metadata = {"name": name, "namespace": "shop", "labels": {"app": name, LABEL: "true"}}
        if kind == "Pod":
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
        template = {"metadata": {"labels": metadata["labels"]}, "spec": spec}
        whole: Object = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"template": template},
        }
        if kind == "Job":
            whole["apiVersion"] = "batch/v1"
            whole["spec"]["backoffLimit"] = 0
            spec["restartPolicy"] = "Never"
            return whole
        return merged(whole, {"spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}}})

    def pods(self, name: str) -> list[Object]:
        """Of a workload, those that are ending too."""
        return self.cluster.all_of("v1", "Pod", f"app={name}")

    def await_true(self, question: Callable[[], Any]) -> None:
        """With what the node has to say, where it does not come true."""
        try:
            self.cluster.await_true(question, WAIT_S)
        except TimeoutError as error:
            said = [(one["metadata"]["name"], one["status"]) for one in self.pods_of_all()]
            raise TimeoutError(f"{json.dumps(said, indent=1)}\n{self.node.told()}") from error

    def pods_of_all(self) -> list[Object]:
        return self.cluster.all_of("v1", "Pod")

    def await_serving(self, name: str, image: str, *but: str) -> list[Object]:
        """Two pods, no more, whose sidecars are of that image; each of them at work."""

        def serving() -> list[Object]:
            return [
                one
                for one in self.pods(name)
                if one["spec"]["initContainers"][0]["image"] == image
                and one["metadata"]["name"] not in but
                and "deletionTimestamp" not in one["metadata"]
                and is_ready(one)
            ]

        self.await_true(lambda: len(serving()) == 2 == len(self.pods(name)))
        return serving()

    def await_values(self, topic: str, name: str, more: int) -> None:
        """Until it has brought so many more through."""
        wanted = len(self.values(topic, name)) + more
        self.await_true(lambda: len(self.values(topic, name)) >= wanted)

    def values(self, topic: str, name: str) -> list[int]:
        """The numbers that a pod has brought through."""
        found = [json.loads(one.value or b"") for one in read_all(self.kafka.bootstrap, topic)]
        return [number for who, number in found if who == name]

    def judge(self, name: str, topic: str, count: int) -> int:
        """End it in order; each of so many pods has brought each of its messages through once."""
        self.cluster.change(self.workload("Deployment", name, "", ""), {"spec": {"replicas": 0}})
        self.await_true(lambda: not self.pods(name))
        ended = dict(json.loads(one.value or b"") for one in read_all(self.kafka.bootstrap, ENDED))
        mine = {who: number for who, number in ended.items() if who.startswith(f"{name}-")}
        assert len(mine) == count, f"{count} pods were to end in order: {mine}"
        self.await_true(lambda: len(read_all(self.kafka.bootstrap, topic)) >= sum(mine.values()))
        found: dict[str, list[int]] = defaultdict(list)
        for one in read_all(self.kafka.bootstrap, topic):
            who, number = json.loads(one.value or b"")
            found[who].append(number)
        for who, number in mine.items():
            assert sorted(found.pop(who, [])) == list(range(number)), f"{who}, lost or doubled"
        assert not found, "of pods that nobody knows"
        return sum(mine.values())


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with (
        Cluster(controllers=True, has_kubelet=True) as cluster,
        Node(cluster, IMAGE, NEXT) as node,
        kafka_for_pods() as (kafka, address),
    ):
        space, *accounts = namespace("shop")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "halfhitch", "namespace": "shop"},
            "data": {"handle-key": base64.b64encode(b"a key that only tests would use").decode()},
        }
        for one in (merged(space, {"metadata": {"labels": {RESTRICTED: "restricted"}}}), *accounts):
            cluster.apply(one)
        cluster.apply(secret)
        create_topics(kafka.bootstrap, {ENDED: 1})
        made = World(cluster, node, kafka, address)
        made.install(IMAGE)
        yield made


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def restarts(pods: list[Object]) -> int:
    """Of all containers."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return sum(c["restartCount"] for one in pods for kind in kinds for c in one["status"][kind])


def test_a_job_finds_its_sidecar_and_is_complete_although_that_would_run_for_ever(
    world: World,
) -> None:
    """By `inject`: started before the application, told to end after it, and it ends in order."""
    topic = fresh_name("orders")
    create_topics(world.kafka.bootstrap, {topic: 1})
    job = world.workload("Job", "once", ONCE, topic)
    template = job["spec"]["template"]
    del template["metadata"]["labels"][LABEL]
    flags = {
        "kafka.bootstrap": world.address,
        "handle.key_file": "secret:halfhitch/handle-key",
        "topics.create": "true",
        "topics.replication_factor": "1",
        "topics.partitions": "2",
        "owner.session_timeout_ms": "6000",
    }
    Sidecar(Given.of(flags), IMAGE).inject("here", template, ends=True)
    begun_s = time.monotonic()
    world.cluster.create(job)
    world.await_true(lambda: world.cluster.read(job)["status"].get("succeeded") == 1)
    took_s = time.monotonic() - begun_s
    (pod,) = world.pods("once")
    (sidecar,), (app,) = (
        pod["status"][kind] for kind in ("initContainerStatuses", "containerStatuses")
    )
    ended, done = sidecar["state"]["terminated"], app["state"]["terminated"]
    print(f"a Job with a sidecar: {took_s:.1f} s; sidecar {ended}, application {done}")
    assert (ended["exitCode"], done["exitCode"]) == (0, 0)
    assert ended["startedAt"] <= done["startedAt"] <= done["finishedAt"] <= ended["finishedAt"]
    assert restarts([pod]) == 0
    assert [one.value for one in read_all(world.kafka.bootstrap, topic)] == [b"paid"]


def test_a_rolling_upgrade_of_sidecars_loses_nothing_and_doubles_nothing(world: World) -> None:
    """By the label: another image in the chart, and the pods are made anew under load."""
    topic = fresh_name("orders")
    create_topics(world.kafka.bootstrap, {topic: 2})
    shop = world.workload("Deployment", "upgraded", FOR_EVER, topic)
    world.cluster.create(shop)
    old = world.await_serving("upgraded", IMAGE)
    for one in old:
        world.await_values(topic, one["metadata"]["name"], 20)
    assert restarts(old) == 0
    begun_s = time.monotonic()
    world.install(NEXT)
    again = {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}
    world.cluster.change(shop, {"spec": {"template": {"metadata": again}}})
    new = world.await_serving("upgraded", NEXT)
    took_s = time.monotonic() - begun_s
    for one in new:
        world.await_values(topic, one["metadata"]["name"], 20)
    assert restarts(new) == 0
    world.install(IMAGE)
    count = world.judge("upgraded", topic, 4)
    print(f"a rolling upgrade of two pods: {took_s:.1f} s, {count} messages, each once")


def test_a_drained_node_ends_its_pods_one_by_one_and_in_order(world: World) -> None:
    topic = fresh_name("orders")
    create_topics(world.kafka.bootstrap, {topic: 2})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "drained", "namespace": "shop"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "drained"}}},
    }
    world.cluster.apply(budget)
    world.cluster.create(world.workload("Deployment", "drained", FOR_EVER, topic))
    first, second = world.await_serving("drained", IMAGE)
    for one in (first, second):
        world.await_values(topic, one["metadata"]["name"], 20)

    def allowed() -> bool:
        return bool(world.cluster.read(budget)["status"].get("disruptionsAllowed"))

    world.await_true(allowed)
    world.node.set_schedulable(schedulable=False)
    begun_s = time.monotonic()
    world.cluster.evict(first)
    with pytest.raises(Rejected, match="disruption budget"):
        world.cluster.evict(second)
    gone = first["metadata"]["name"]
    world.await_true(lambda: gone not in [one["metadata"]["name"] for one in world.pods("drained")])
    took_s = time.monotonic() - begun_s
    world.await_values(topic, second["metadata"]["name"], 20)  # which goes on meanwhile
    world.node.set_schedulable(schedulable=True)
    world.await_serving("drained", IMAGE, gone)
    world.await_true(allowed)
    world.cluster.evict(second)
    new = world.await_serving("drained", IMAGE, gone, second["metadata"]["name"])
    for one in new:
        world.await_values(topic, one["metadata"]["name"], 20)
    count = world.judge("drained", topic, 4)
    print(f"a pod that is evicted is gone after {took_s:.1f} s; {count} messages, each once")
