"""Pods that cannot have the sidecar are refused with a sentence, and changed by nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from halfhitch_cli.pod_rules import NotInjected, stands_at_the_pods, wanted
from halfhitch_cli.pod_settings import Given
from halfhitch_cli.sidecar_pod import Sidecar
from harness.injected import IMAGE, LEAST, template


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
            Sidecar(Given.of(LEAST), IMAGE).inject("here", found)


def test_an_ordinary_container_that_has_no_time_to_stop_is_told() -> None:
    def stopping(given_s: int | None, drain_s: str = "10", mode: str = "container") -> None:
        found = template()
        if given_s is not None:
            found["spec"]["terminationGracePeriodSeconds"] = given_s
        Sidecar(Given.of({**LEAST, "drain.s_max": drain_s}), IMAGE, mode).inject("here", found)

    for fits in ((None,), (25,), (7, "10", "native")):
        stopping(*fits)
    for short, least in (((24,), 25), ((None, "15.5"), 31)):
        with pytest.raises(NotInjected, match=f"terminationGracePeriodSeconds to {least}"):
            stopping(*short)


def test_a_port_that_the_application_has_is_not_the_sidecars() -> None:
    def with_port(port: int, **flags: object) -> None:
        found = template()
        found["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": port}]
        Sidecar(Given.of({**LEAST, **flags}), IMAGE).inject("here", found)
        Sidecar(Given.of({**LEAST, **flags}), IMAGE).inject("here", found)

    for port, door in ((8340, "http"), (8341, "admin")):
        with pytest.raises(NotInjected, match=f"door {door}: give --{door}-port another"):
            with_port(port)
    with_port(8340, **{"http.port": "9000"})
    with_port(9876)
    with pytest.raises(NotInjected, match="door rocketmq"):
        with_port(9876, **{"rocketmq.enabled": "true"})


def test_what_has_no_containers_is_told() -> None:
    with pytest.raises(NotInjected, match=r"here: its pods have no containers"):
        Sidecar(Given.of(LEAST), IMAGE).inject("here", {"spec": {}})


def refused(pod: dict[str, Any], mode: str = "native", **flags: object) -> str:
    """The sentence, or nothing; a pod that is refused stays as it was."""
    found = {"spec": copy.deepcopy(pod)}
    try:
        Sidecar(Given.of({**LEAST, **flags}), IMAGE, mode).inject("here", found)
    except NotInjected as error:
        assert found["spec"] == pod
        return error.message
    return ""


def test_a_native_sidecar_had_no_time_to_stop() -> None:
    for short_s in (0, 1, 6, 6.0):
        pod = template(terminationGracePeriodSeconds=short_s)["spec"]
        assert "set terminationGracePeriodSeconds to 7 and what the" in refused(pod)
    for enough_s in (None, 7, 300, "6"):
        assert refused(template(terminationGracePeriodSeconds=enough_s)["spec"]) == ""


@pytest.mark.parametrize("name", ["halfhitch-secrets", "halfhitch-socket", "halfhitch-no-token"])
def test_a_volume_of_the_users_was_replaced_in_silence(name: str) -> None:
    pod = template(volumes=[{"name": "a"}, {"name": name, "secret": {"secretName": "mine"}}])
    assert f"a volume named '{name}' that was not injected" in refused(pod["spec"])


@pytest.mark.parametrize(
    "path", ["/run/halfhitch/", "//var/run/halfhitch", "/run/halfhitch/data.sock"]
)
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_a_mount_of_the_users_was_replaced_in_silence(place: str, path: str) -> None:
    own = {"name": "own", "image": "a", "volumeMounts": [{"name": "d", "mountPath": path}]}
    pod = template(securityContext={"fsGroup": 1}, volumes=[{"name": "d", "emptyDir": {}}])["spec"]
    pod[place] = [*pod.get(place, []), own]
    assert f"'own' has volume 'd' at {path}, where the sidecar's socket is to be" in refused(pod)
    del pod["securityContext"]
    assert refused(pod) == "", "there is no socket"


@pytest.mark.parametrize("beside", ["/run", "/run/halfhitch2", "/srv/run/halfhitch", "/run/half"])
def test_a_mount_beside_the_sockets_folder_is_none_of_it(beside: str) -> None:
    pod = template(securityContext={"fsGroup": 1})["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "d", "mountPath": beside}]
    assert refused(pod) == ""


@pytest.mark.parametrize(
    ("place", "container", "modes"),
    [
        ("containers", {"ports": [{"containerPort": 8340, "protocol": "UDP"}]}, ""),
        ("containers", {"ports": [{"containerPort": 8340, "protocol": "SCTP"}]}, ""),
        ("containers", {"ports": [{"containerPort": 8340, "protocol": "TCP"}]}, "native container"),
        ("initContainers", {"ports": [{"containerPort": 8341}]}, "native"),
        (
            "initContainers",
            {"ports": [{"containerPort": 8341}], "restartPolicy": "Always"},
            "native container",
        ),
    ],
)
def test_ports_of_other_protocols_and_places_were_mistaken(
    place: str, container: dict[str, Any], modes: str
) -> None:
    for mode in ("native", "container"):
        pod = template()["spec"]
        pod[place] = [*pod.get(place, []), {"name": "own", "image": "a", **container}]
        assert bool(refused(pod, mode)) == (mode in modes.split())
        assert refused(pod, mode, **{"http.port": "1", "admin.port": "2"}) == ""


@pytest.mark.parametrize(("place", "name"), [("os", "name"), ("nodeSelector", "kubernetes.io/os")])
def test_pods_on_windows_got_a_container_for_linux(place: str, name: str) -> None:
    assert "its pods run on Windows" in refused(template(**{place: {name: "windows"}})["spec"])
    assert refused(template(**{place: {name: "linux"}})["spec"]) == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "halfhitch-secrets", "secret": {"secretName": "mine"}}]},
        {"containers": [{"name": "halfhitch", "image": "mine"}, {"name": "a"}]},
    ],
)
def test_a_label_that_is_a_copy_let_things_of_the_users_be_replaced(spec: dict[str, Any]) -> None:
    found = {**template(**spec), "metadata": {"labels": {"halfhitch/sidecar": "native"}}}
    with pytest.raises(NotInjected, match="was not injected"):
        Sidecar(Given.of(LEAST), IMAGE).inject("here", found)


def test_a_container_of_the_users_got_the_sidecars_secrets() -> None:
    pod = template()["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "halfhitch-secrets", "mountPath": "/x"}]
    assert "'app' mounts halfhitch-secrets, the secrets of the sidecar" in refused(pod)


@pytest.mark.parametrize("said", [False, "false", "False", "no", "off"])
def test_pods_that_old_yaml_says_want_none_got_one(said: object) -> None:
    assert not wanted("here", {"metadata": {"annotations": {"halfhitch/inject": said}}})


def test_what_is_neither_yes_nor_no_is_told() -> None:
    for said in (True, "true", "Yes", "on"):
        assert wanted("here", {"metadata": {"annotations": {"halfhitch/inject": said}}})
    for nothing in ({}, {"metadata": None}, {"metadata": {"annotations": None}}):
        assert wanted("here", nothing)
    with pytest.raises(NotInjected, match="halfhitch/inject must be true or false, not 'disabled'"):
        wanted("here", {"metadata": {"annotations": {"halfhitch/inject": "disabled"}}})


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ("a", "metadata must be a mapping"),
        ({"labels": ["a"]}, "labels must be a mapping"),
        ({"annotations": "a"}, "annotations must be a mapping"),
    ],
)
def test_metadata_of_the_wrong_form_broke_inject(metadata: Any, says: str) -> None:
    with pytest.raises(NotInjected, match=says):
        Sidecar(Given.of(LEAST), IMAGE).inject("here", {**template(), "metadata": metadata})


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ({"containers": []}, "its pods have no containers"),
        ({"containers": {"a": {}}}, "its containers must be a list of mappings"),
        ({"volumes": {"a": {}}}, "its volumes must be a list of mappings"),
        ({"initContainers": ["a"]}, "its initContainers must be a list of mappings"),
        (
            {"containers": [{"name": "a", "env": {"A": "b"}}]},
            "container 'a' is wrong, for its env must be a list of mappings",
        ),
        ({"containers": [{"name": "a", "ports": [80]}]}, "its ports must be a list of mappings"),
        ({"containers": [None]}, "its containers must be a list of mappings"),
    ],
)
def test_what_has_the_wrong_form_broke_inject(pod: dict[str, Any], says: str) -> None:
    assert says in refused(template(**pod)["spec"])


@pytest.mark.parametrize("said", ["True", "yes", True, "perhaps", "1"])
def test_a_label_that_no_policy_hears_was_taken(said: object) -> None:
    with pytest.raises(NotInjected, match=f"the label halfhitch/inject: {said}, which no policy"):
        wanted("here", {"metadata": {"labels": {"halfhitch/inject": said}}})


def test_a_label_that_wants_none_was_not_heard() -> None:
    for said in ("false", "No", False):
        metadata: dict[str, Any] = {"labels": {"halfhitch/inject": said}}
        assert not wanted("here", {"metadata": metadata})
        metadata["annotations"] = {"halfhitch/inject": "true"}
        assert wanted("here", {"metadata": metadata}), "the annotation is nearer"
    assert wanted("here", {"metadata": {"labels": {"halfhitch/inject": "true"}}})


@pytest.mark.parametrize(
    ("place", "name", "says"),
    [
        ("annotations", "halfhitch/injct", "write halfhitch/inject, if that is meant"),
        ("annotations", "halfhitch/Inject", "write halfhitch/inject, if"),
        ("annotations", "halfhitch/transprot", "write halfhitch/transport, if"),
        ("annotations", "halfhitch/readines", "write halfhitch/readiness, if"),
        ("annotations", "halfhitch/http_port", "write halfhitch/http.port, if"),
        ("annotations", "halfhitch/mode", "give --mode instead"),
        ("annotations", "halfhitch/image", "give --image instead"),
        ("annotations", "halfhitch/colour", "none of Half Hitch's: remove it"),
        ("labels", "halfhitch/injct", "write halfhitch/inject, if"),
        ("labels", "halfhitch/http.port", "in their labels, which is none of Half Hitch's"),
    ],
)
def test_a_name_that_says_nothing_was_passed_over(place: str, name: str, says: str) -> None:
    found = {**template(), "metadata": {place: {"a": "b", name: "c"}}}
    with pytest.raises(NotInjected, match=f"{name} in their {place}, which is none") as refused:
        Sidecar(Given.of(LEAST), IMAGE).inject("here", found)
    assert says in refused.value.message


def test_what_stands_above_the_pods_was_passed_over() -> None:
    off = {"halfhitch/inject": "false"}
    for kind in ("annotations", "labels"):
        above = [("metadata", {"annotations": None, "labels": 1, kind: off})]
        says = f"halfhitch/inject in metadata.{kind}, .* it to spec.template.metadata.{kind}"
        with pytest.raises(NotInjected, match=says):
            stands_at_the_pods("here", above, "spec.template", template())
        found = {**template(), "metadata": {kind: off}}
        stands_at_the_pods("here", above, "spec.template", found)
    stands_at_the_pods(
        "here",
        [("metadata", {"labels": {"halfhitch/sidecar": "native"}, "annotations": {"a": "b"}})],
        "spec.template",
        template(),
    )
