"""The sidecar as part of a pod: its container, its volumes, what the application is told.

Owns `Sidecar`, which puts itself into a pod's template, once however often it is asked. The
container is the one that the chart halfhitch-sidecar makes of the same settings; a test compares
them. What settings say is in pod_settings.py, which pods cannot have it in pod_rules.py. Knows
nothing of files and YAML: a template is a mapping.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from halfhitch.config import Settings
from halfhitch.errors import ConfigurationError
from halfhitch_cli.pod_resources import AMOUNTS, Resources
from halfhitch_cli.pod_rules import (
    ADDRESS,
    EMPTY_VOLUME,
    INJECTED,
    NAME,
    SECRETS_VOLUME,
    SOCKET_FOLDER,
    SOCKET_VOLUME,
    NotInjected,
    Template,
    annotations_of,
    has_known_names,
    has_ports,
    has_room_for_the_socket,
    has_texts,
    has_time,
    others,
    suitable,
)
from halfhitch_cli.pod_settings import FOLDER, PREFIX, SOCKET, Given, Reference, environment

#: Where an API server mounts the pod's token, unless something is mounted there already.
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_USER: Final = 65_532


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What is put into pods."""

    given: Given
    image: str
    mode: str = "native"
    transport: str = "auto"
    has_readiness: bool = True
    stop_after_s: int = 10
    resources: Resources = field(default_factory=lambda: Resources.of({}))

    def inject(self, where: str, template: Template, *, ends: bool = False) -> None:
        """Into this pod's template. `ends`: the pod is there to end, as a Job's."""
        annotations = annotations_of(where, template)
        metadata = template.get("metadata") or {}
        has_known_names(where, metadata)
        pod = suitable(where, metadata, template.get("spec"), ends=ends, mode=self.mode)
        try:
            given = self.given.with_annotations(annotations)
            settings = given.checked()
            own = {name: annotations.get(PREFIX + name) for name in AMOUNTS}
            resources = self.resources.with_annotations(own).checked()
        except ConfigurationError as error:
            raise NotInjected(f"{where}: {error.message}") from None
        has_texts(where, annotations)
        has_time(where, pod, settings, mode=self.mode, stop_after_s=self.stop_after_s)
        has_ports(where, pod, settings, mode=self.mode)
        has_socket = self._has_socket(where, annotations, pod)
        if has_socket:
            has_room_for_the_socket(where, pod)
        references = given.needed(settings)
        container = self.container(settings, references, resources)
        if not self._is_probed_for_readiness(where, annotations):
            del container["readinessProbe"]
        place = "initContainers" if self.mode == "native" else "containers"
        for name in ("initContainers", "containers"):
            self._put(pod, name, container if name == place else None)
        self._mount(pod, references, settings, has_socket=has_socket)
        template["metadata"] = metadata
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels[INJECTED] = self.mode

    def _is_probed_for_readiness(self, where: str, annotations: Mapping[str, Any]) -> bool:
        said = str(annotations.get(PREFIX + "readiness", self.has_readiness)).lower()
        if said not in ("true", "false"):
            raise NotInjected(f"{where}: {PREFIX}readiness must be true or false, not {said!r}.")
        return said == "true"

    def _has_socket(
        self, where: str, annotations: Mapping[str, Any], pod: Mapping[str, Any]
    ) -> bool:
        """The socket is for its group, so both need one: the pod's fsGroup."""
        transport = str(annotations.get(PREFIX + "transport", self.transport))
        if transport not in ("auto", "socket", "tcp"):
            raise NotInjected(
                f"{where}: {PREFIX}transport must be auto, socket or tcp, not {transport!r}."
            )
        if transport == "auto":
            return (pod.get("securityContext") or {}).get("fsGroup") is not None
        return transport == "socket"

    def container(
        self,
        settings: Settings,
        references: Mapping[str, Reference],
        resources: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The chart's container, of these settings."""
        container: dict[str, Any] = {
            "name": NAME,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "args": ["serve"],
        }
        if self.mode == "native":
            container["restartPolicy"] = "Always"
        container["env"] = environment(settings, references)
        container |= {
            "startupProbe": _probe("livez", failures=60, period_s=1, wait_s=5),
            "livenessProbe": _probe("livez", failures=3, period_s=30, wait_s=10),
            "readinessProbe": _probe("readyz", failures=3, period_s=10, wait_s=5),
        }
        if self.mode == "container":
            rest = f"import time; time.sleep({self.stop_after_s})"
            container["lifecycle"] = {"preStop": {"exec": {"command": ["python", "-c", rest]}}}
        container["resources"] = dict(resources)
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container["volumeMounts"] = [
            {"name": SOCKET_VOLUME, "mountPath": SOCKET_FOLDER},
            {"name": SECRETS_VOLUME, "mountPath": FOLDER, "readOnly": True},
            {"name": EMPTY_VOLUME, "mountPath": _ACCOUNT, "readOnly": True},
        ]
        return container

    def _put(self, pod: Template, place: str, container: dict[str, Any] | None) -> None:
        """In front of the others, so that those that start later find it; one that is there is
        replaced."""
        others = pod.get(place)
        if others is None:
            if container is not None:
                pod[place] = [container]
            return
        at = next((n for n, one in enumerate(others) if one.get("name") == NAME), None)
        if at is not None and container is not None:
            if others[at] != container:  # comments behind it hang on the old one
                others[at] = container
        elif at is not None:
            del others[at]
        elif container is not None:
            others.insert(0 if place == "initContainers" else len(others), container)

    def _mount(
        self,
        pod: Template,
        references: Mapping[str, Reference],
        settings: Settings,
        *,
        has_socket: bool,
    ) -> None:
        ordered = sorted(references.values(), key=lambda one: one.file)
        memory = {"medium": "Memory", "sizeLimit": "1Mi"}
        projected = {"defaultMode": 0o444, "sources": [one.source for one in ordered]}
        for volume in (
            {"name": SOCKET_VOLUME, "emptyDir": memory},
            {"name": SECRETS_VOLUME, "projected": projected},
            {"name": EMPTY_VOLUME, "emptyDir": {}},
        ):
            _replace(pod, "volumes", "name", volume)
        scheme = "https" if "http.tls_cert" in references else "http"
        address = f"unix:{SOCKET}" if has_socket else f"{scheme}://127.0.0.1:{settings.http.port}"
        for _, one in others(pod):
            _replace(one, "env", "name", {"name": ADDRESS, "value": address})
            if has_socket:
                mount = {"name": SOCKET_VOLUME, "mountPath": SOCKET_FOLDER}
                _replace(one, "volumeMounts", "mountPath", mount)


def _replace(owner: Template, place: str, identity: str, item: dict[str, Any]) -> None:
    """The item of that name, or one more."""
    items: list[Any] | None = owner.get(place)
    if items is None:
        items = owner[place] = []
    for number, one in enumerate(items):
        if one.get(identity) == item[identity]:
            if one != item:
                items[number] = item
            return
    items.append(item)


def _probe(question: str, *, failures: int, period_s: int, wait_s: int) -> dict[str, Any]:
    return {
        "exec": {"command": ["halfhitch", "healthcheck", question]},
        "failureThreshold": failures,
        "periodSeconds": period_s,
        "timeoutSeconds": wait_s,
    }
