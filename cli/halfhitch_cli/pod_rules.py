"""Which pods cannot have a sidecar, each with its sentence.

Owns the rules that `Sidecar` asks before it changes anything, and the names that are the sidecar's
in a pod. tools/annotations.py hands names and numbers on to the chart's policies, which refuse the
same pods. Knows nothing of the container itself.
"""

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from halfhitch.config import SETTINGS, Settings
from halfhitch.errors import ConfigurationError
from halfhitch_cli.pod_resources import AMOUNTS
from halfhitch_cli.pod_settings import PREFIX

NAME: Final = "halfhitch"
#: The label of pods that have it.
INJECTED: Final = PREFIX + "sidecar"
ADDRESS: Final = "HALFHITCH_ADDRESS"
SOCKET_VOLUME: Final = "halfhitch-socket"
SECRETS_VOLUME: Final = "halfhitch-secrets"
EMPTY_VOLUME: Final = "halfhitch-no-token"
#: The sidecar's volumes, and what each is.
_SHAPES: Final = {
    SOCKET_VOLUME: "emptyDir",
    SECRETS_VOLUME: "projected",
    EMPTY_VOLUME: "emptyDir",
}
VOLUMES: Final = tuple(_SHAPES)
SOCKET_FOLDER: Final = "/run/halfhitch"
#: It and what is in it, as a mount may spell it; in most images /var/run is a link.
SOCKET_FOLDERS: Final = "^/+(var/+)?run/+halfhitch(/|$)"
#: What only a sidecar of the same pod can be.
_OF_SIDECAR: Final = re.compile(r"unix:/run/halfhitch/.*|https?://(127\.0\.0\.1|localhost):.*")
#: What Kubernetes gives a pod that says nothing, and what handing over takes.
_GRACE_S: Final = 30
_HAND_OVER_S: Final = 5
#: A native sidecar stops behind the application: nobody is connected, and it waits two seconds.
NATIVE_GRACE_S: Final = 2 + _HAND_OVER_S
#: Unquoted, each is true or false to kubectl.
_ON: Final = frozenset({"true", "yes", "on", "y"})
_OFF: Final = frozenset({"false", "no", "off", "n"})

#: What annotations of the pods say besides settings, and what their labels do.
WORDS: Final = ("inject", "readiness", "transport", *AMOUNTS)
LABELS: Final = ("inject", "sidecar")
#: Flags without an annotation.
_FLAGS: Final = {"image": "--image", "mode": "--mode"}

Template = MutableMapping[str, Any]


class NotInjected(ConfigurationError):
    """This pod cannot have the sidecar; the text says why, and what to do."""


def wanted(where: str, template: Mapping[str, Any]) -> bool:
    """Whether the annotation `halfhitch/inject` lets the sidecar in, or else that label."""
    found = annotations_of(where, template).get(PREFIX + "inject")
    said = str("true" if found is None else found).lower()
    if said not in _ON | _OFF:
        raise NotInjected(f"{where}: {PREFIX}inject must be true or false, not {said!r}.")
    label = ((template.get("metadata") or {}).get("labels") or {}).get(PREFIX + "inject", "true")
    if said in _OFF or (found is None and str(label).lower() in _OFF):
        return False
    if label != "true" and str(label).lower() not in _OFF:
        raise NotInjected(
            f"{where}: its pods have the label {PREFIX}inject: {label}, which no policy hears: "
            'write "true", in small letters and in quotes, or "false" to leave them alone.'
        )
    return True


def has_known_names(where: str, metadata: Mapping[str, Any]) -> None:
    """Annotations with a dot are settings, which are looked up elsewhere."""
    for place, known in (("annotations", WORDS), ("labels", LABELS)):
        for name in map(str, metadata.get(place) or ()):
            word = name.removeprefix(PREFIX)
            if word == name or word in known or (place == "annotations" and "." in word):
                continue
            raise NotInjected(
                f"{where}: its pods have {name} in their {place}, which is none of Half Hitch's: "
                f"{_meant(word, place)}."
            )


def has_texts(where: str, annotations: Mapping[str, Any]) -> None:
    """What YAML reads as a number or a truth, an API server refuses without a cure."""
    for name, value in annotations.items():
        if str(name).startswith(PREFIX) and not isinstance(value, str):
            said = json.dumps(value, default=str)
            raise NotInjected(
                f"{where}: its pods have the annotation {name}: {said}, which is no text, and "
                f"Kubernetes takes nothing else: write it in quotes, such as {name}: "
                f'"{said if value is not None else ""}".'
            )


def _meant(word: str, place: str) -> str:
    if word in _FLAGS:
        return f"give {_FLAGS[word]} instead"
    known = LABELS if place == "labels" else (*WORDS, *(setting.key for setting in SETTINGS))
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.7)
    return f"write {PREFIX}{near[0]}, if that is meant" if near else "remove it"


def stands_at_the_pods(
    where: str, above: Iterable[tuple[str, Mapping[str, Any]]], place: str, template: Template
) -> None:
    """What somebody wrote further up, by its place, and nobody would read."""
    own = template.get("metadata") or {}
    for at, metadata in above:
        for kind in ("annotations", "labels"):
            found = metadata.get(kind)
            for name in map(str, found if isinstance(found, Mapping) else ()):
                if name.startswith(PREFIX) and name not in {*(own.get(kind) or ()), INJECTED}:
                    raise NotInjected(
                        f"{where}: it has {name} in {at}.{kind}, where nobody reads it: move it to "
                        f"{place}.metadata.{kind}."
                    )


def annotations_of(where: str, template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of the pods; none where nothing is said."""
    metadata = template.get("metadata")
    places = {"metadata": metadata}
    if isinstance(metadata, Mapping):
        places |= {name: metadata.get(name) for name in ("labels", "annotations")}
    for name, found in places.items():
        if found is not None and not isinstance(found, Mapping):
            raise NotInjected(f"{where}: its pods' {name} must be a mapping.")
    return places.get("annotations") or {}


def containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Template]]:
    """Each with its place."""
    for place in ("initContainers", "containers"):
        for one in pod.get(place) or ():
            yield place, one


def others(pod: Mapping[str, Any]) -> Iterator[tuple[str, Template]]:
    """Those of the application."""
    return (row for row in containers(pod) if row[1].get("name") != NAME)


def suitable(where: str, metadata: Mapping[str, Any], pod: Any, *, ends: bool, mode: str) -> Any:
    """The pod, or what keeps the sidecar out of it whatever its settings are."""
    if not isinstance(pod, MutableMapping) or not pod.get("containers"):
        raise NotInjected(f"{where}: its pods have no containers.")
    _has_lists(where, pod)
    if str(pod.get("hostNetwork")).lower() in _ON:
        raise NotInjected(
            f"{where}: its pods use the host's network, where the sidecar's doors would be open to "
            "all of the host: remove hostNetwork, or use a shared coordinator."
        )
    if _is_windows(pod):
        raise NotInjected(
            f"{where}: its pods run on Windows, and the sidecar's image is for Linux: use a shared "
            f"coordinator, or annotate the pods with {PREFIX}inject: 'false'."
        )
    if ends and mode == "container":
        raise NotInjected(
            f"{where}: with --mode container the sidecar goes on when the work is done, and the "
            "pod never ends: use --mode native (Kubernetes 1.29)."
        )
    _has_free_names(where, pod, is_injected=INJECTED in (metadata.get("labels") or {}))
    for name in _with_an_address(pod):
        raise NotInjected(
            f"{where}: its container {name!r} has a {ADDRESS} of its own, which the sidecar's "
            f"would replace: remove it, or annotate the pods with {PREFIX}inject: 'false'."
        )
    return pod


def _has_lists(where: str, pod: Mapping[str, Any]) -> None:
    """What Kubernetes would refuse later, and what is done here cannot be done with."""
    places = [("", pod, name) for name in ("initContainers", "containers", "volumes")]
    for place, owner, name in places:
        found = owner.get(name)
        is_list = found is None or isinstance(found, list)
        if not is_list or not all(isinstance(one, MutableMapping) for one in found or ()):
            raise NotInjected(f"{where}: its {place}{name} must be a list of mappings.")
        if "ontainers" in name:
            for one in found or ():
                inner = f"container {one.get('name')!r} is wrong, for its "
                places += [(inner, one, each) for each in ("env", "ports", "volumeMounts")]


def _is_windows(pod: Mapping[str, Any]) -> bool:
    for place, name in (("os", "name"), ("nodeSelector", "kubernetes.io/os")):
        said = pod.get(place)
        if isinstance(said, Mapping) and said.get(name) == "windows":
            return True
    return False


def _has_free_names(where: str, pod: Mapping[str, Any], *, is_injected: bool) -> None:
    """A label may be a copy: what is replaced must look like the sidecar's own as well."""
    named = (one for _, one in containers(pod) if one.get("name") == NAME)
    if any(not is_injected or one.get("args") != ["serve"] for one in named):
        raise NotInjected(
            f"{where}: it has a container named {NAME!r} that was not injected: rename it, or "
            "leave that pod to whoever put it there."
        )
    for one in pod.get("volumes") or ():
        shape = _SHAPES.get(str(one.get("name")))
        if shape is not None and (not is_injected or shape not in one):
            raise NotInjected(
                f"{where}: it has a volume named {one['name']!r} that was not injected, and the "
                "sidecar's would replace it: rename it."
            )
    for _, one in others(pod):
        if any(mount.get("name") == SECRETS_VOLUME for mount in one.get("volumeMounts") or ()):
            raise NotInjected(
                f"{where}: its container {one.get('name')!r} mounts {SECRETS_VOLUME}, the secrets "
                "of the sidecar: give it a volume of its own."
            )


def _with_an_address(pod: Mapping[str, Any]) -> Iterator[str]:
    """Containers that are told of another sidecar or coordinator."""
    for _, one in others(pod):
        for variable in one.get("env") or ():
            is_other = _OF_SIDECAR.fullmatch(str(variable.get("value"))) is None
            if variable.get("name") == ADDRESS and is_other:
                yield str(one.get("name"))


def has_time(
    where: str, pod: Mapping[str, Any], settings: Settings, *, mode: str, stop_after_s: int
) -> None:
    """A native sidecar stops behind the application; another one when the pod is told to."""
    grace_s = pod.get("terminationGracePeriodSeconds")
    grace_s = _GRACE_S if grace_s is None else grace_s
    if not isinstance(grace_s, int | float):
        return  # Kubernetes says so
    if mode == "native" and grace_s < NATIVE_GRACE_S:
        raise NotInjected(
            f"{where}: its pods have {grace_s} s to stop, and the sidecar, which stops behind the "
            f"application, may take {NATIVE_GRACE_S} of them: set terminationGracePeriodSeconds "
            f"to {NATIVE_GRACE_S} and what the application takes."
        )
    least_s = stop_after_s + math.ceil(settings.drain.s_max) + _HAND_OVER_S
    if mode == "container" and grace_s < least_s:
        raise NotInjected(
            f"{where}: its pods have {grace_s} s to stop, and with --mode container the "
            f"sidecar may take {least_s}: it goes on for {stop_after_s}, waits for "
            f"drain.s_max and hands over. Set terminationGracePeriodSeconds to {least_s}."
        )


def has_ports(where: str, pod: Mapping[str, Any], settings: Settings, *, mode: str) -> None:
    """Containers of a pod share its ports: whoever comes second cannot listen.

    A native sidecar runs beside all init containers, another one beside those that are native.
    """
    doors = {settings.http.port: "http", settings.admin.port: "admin"}
    if settings.rocketmq.enabled:
        doors[settings.rocketmq.port] = "rocketmq"
    for place, one in others(pod):
        if place == "initContainers" and mode != "native" and one.get("restartPolicy") != "Always":
            continue
        for port in one.get("ports") or ():
            door = doors.get(port.get("containerPort"))
            if door is not None and port.get("protocol") in (None, "", "TCP"):
                raise NotInjected(
                    f"{where}: its container {one.get('name')!r} has port {port['containerPort']}, "
                    f"and so would the sidecar's door {door}: give --{door}-port another, or the "
                    f"annotation {PREFIX}{door}.port."
                )


def has_room_for_the_socket(where: str, pod: Mapping[str, Any]) -> None:
    """What is mounted there already would be away, or hide the socket."""
    for _, one in others(pod):
        for mount in one.get("volumeMounts") or ():
            is_there = re.match(SOCKET_FOLDERS, str(mount.get("mountPath")))
            if is_there and mount.get("name") != SOCKET_VOLUME:
                raise NotInjected(
                    f"{where}: its container {one.get('name')!r} has volume {mount.get('name')!r} "
                    f"at {mount['mountPath']}, where the sidecar's socket is to be: mount it "
                    f"elsewhere, or annotate the pods with {PREFIX}transport: tcp."
                )
