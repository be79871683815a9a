"""Which objects make pods: a kind is one of its group, and what is left alone is told."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch_cli.workloads import NoManifest, Workload, is_known, left_alone

CONTAINERS = {"spec": {"containers": [{"name": "a", "image": "b"}]}}


def made(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "n"}, "spec": spec}


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
        ("argoproj.io/v1alpha1", "Rollout"),
    ],
)
def test_kinds_that_have_a_template_are_known_by_their_group(version: str, kind: str) -> None:
    one = made(version, kind, template=CONTAINERS)
    assert is_known(one)
    assert left_alone("x.yaml", one) is None
    assert Workload("x.yaml", one).template is one["spec"]["template"]
    assert not is_known({**one, "apiVersion": "example.org/v1"})


def test_a_job_of_volcano_was_taken_for_one_of_kubernetes() -> None:
    tasks = [{"name": "t", "template": CONTAINERS}]
    one = made("batch.volcano.sh/v1alpha1", "Job", tasks=tasks)
    assert not is_known(one)
    assert left_alone("x.yaml", one) == (
        "x.yaml, Job/n of batch.volcano.sh/v1alpha1 is left alone: it has containers, and it is "
        "not known how it makes pods of them."
    )


@pytest.mark.parametrize(
    "one",
    [
        made(
            "serving.knative.dev/v1", "Service", template={"spec": {"containers": [{"image": 1}]}}
        ),
        made("apps.kruise.io/v1alpha1", "CloneSet", template=CONTAINERS),
        made("argoproj.io/v1alpha1", "Workflow", templates=[{"container": {"image": "a"}}]),
        {"apiVersion": "v1", "kind": "PodTemplate", "template": CONTAINERS},
    ],
)
def test_kinds_that_make_pods_and_are_not_known_passed_in_silence(one: dict[str, Any]) -> None:
    assert "is left alone: it has containers" in str(left_alone("x.yaml", one))


@pytest.mark.parametrize(
    "one",
    [
        made("v1", "Service", ports=[{"port": 80}]),
        made("apiextensions.k8s.io/v1", "CustomResourceDefinition", containers={"type": "array"}),
        made("example.org/v1", "Fleet", containers=["ship"]),
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": "image"}},
    ],
)
def test_what_makes_no_pods_needs_no_word(one: dict[str, Any]) -> None:
    assert left_alone("x.yaml", one) is None


def test_whose_pods_a_rollout_takes_is_told() -> None:
    referred = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    one = made("argoproj.io/v1alpha1", "Rollout", workloadRef=referred)
    assert not is_known(one)
    assert "its pods are those of Deployment/shop (workloadRef)" in str(left_alone("x.yaml", one))


def test_a_kind_that_is_known_and_has_no_template_is_told() -> None:
    with pytest.raises(NoManifest, match=r"x\.yaml, Rollout/n: it has no spec\.template"):
        Workload("x.yaml", made("argoproj.io/v1alpha1", "Rollout"))


def test_metadata_that_is_not_the_pods_is_known_by_its_place() -> None:
    job = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": CONTAINERS}}
    found = Workload("x.yaml", made("batch/v1", "CronJob", jobTemplate=job))
    assert found.place == "spec.jobTemplate.spec.template"
    assert found.above == [
        ("metadata", {"name": "n"}),
        ("spec.jobTemplate.metadata", {"labels": {"a": "b"}}),
    ]
    assert Workload("x.yaml", {**made("v1", "Pod"), **CONTAINERS}).above == []
