"""The sidecar as part of a pod: its container, its volumes, what the application is told.

Owns `Sidecar`, which puts itself into a pod's template, once however often it is asked. The
container is the one that the chart halfhitch-sidecar makes of the same settings; a test compares
them. Knows nothing of files and YAML: a template is a mapping.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from halfhitch.config import SETTINGS, Purpose, Settings, load, rules
from halfhitch.config.kafka_options import FILES, HIDDEN, NAMES
from halfhitch.config.secret import Secret
from halfhitch.config.tracing_rules import traces_can_be_told
from halfhitch.errors import ConfigurationError

NAME: Final = "halfhitch"
PREFIX: Final = "halfhitch/"
_OURS: Final = PREFIX + "sidecar"
_SOCKET: Final = "/run/halfhitch/data.sock"
_FILES: Final = "/etc/halfhitch/secrets"
#: Where an API server mounts the pod's token, unless something is mounted there already.
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_USER: Final = 65_532
_REFERENCE: Final = re.compile(r"(secret|configmap):([a-z0-9.-]+)/([A-Za-z0-9._-]+)")
_ADDRESS: Final = "HALFHITCH_ADDRESS"
#: What only a sidecar of the same pod can be.
_OF_SIDECAR: Final = re.compile(r"unix:/run/halfhitch/.*|https?://(127\.0\.0\.1|localhost):.*")
#: What Kubernetes gives a pod that says nothing, and what handing over takes.
_GRACE_S: Final = 30
_HAND_OVER_S: Final = 5
#: Unquoted, each is true to kubectl.
_ON: Final = frozenset({"true", "yes", "on", "y"})
_BY_KEY: Final = {setting.key: setting for setting in SETTINGS}
#: What the pod decides, not who injects.
REFUSED: Final[Mapping[str, str]] = {
    "instance.id": "it is the name of the pod",
    "http.socket": "use --transport socket",
    **dict.fromkeys(
        ("http.host", "admin.host", "rocketmq.host"),
        "a sidecar's doors are on the pod's loopback; the charts in deploy/helm can open others",
    ),
}
FILE_NAMES: Final[Mapping[str, str]] = {
    "handle.key_file": "handle-key",
    "auth.token_file": "auth-tokens",
    "auth.identities_file": "identities.toml",
    "redis.url_file": "redis-url",
    "checks.url_token_file": "checks-url-token",
    "rocketmq.access_key_file": "rocketmq-access-keys",
    "kafka.sasl_password_file": "kafka-password",
    "kafka.oauth_client_secret_file": "kafka-oauth-client-secret",
    "ssl.ca.location": "kafka-ca.pem",
    "ssl.certificate.location": "kafka-certificate.pem",
    "ssl.key.location": "kafka-key.pem",
}
#: What stands for a secret in a file while the rules between settings are asked.
_STAND_IN: Final = "stands:for-a-secret-in-a-file"
#: Files with secrets are read as settings are loaded: what each becomes then.
_READ: Final[Mapping[str, str]] = {
    "auth.token_file": "auth.tokens",
    "handle.key_file": "handle.key",
    "rocketmq.access_key_file": "rocketmq.access_keys",
    "redis.url_file": "",
    "checks.url_token_file": "checks.url_token",
    "kafka.sasl_password_file": "sasl.password",
    "kafka.oauth_client_secret_file": "sasl.oauthbearer.client.secret",
}
_ANY_HOST: Final = ("ssl.endpoint.identification.algorithm", "none")
#: Of those that a sidecar starts with, what needs no file's content.
_RULES: Final = (traces_can_be_told, rules.open_doors_have_a_lock)

Template = MutableMapping[str, Any]


class NotInjected(ConfigurationError):
    """This pod cannot have the sidecar; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A key of a Secret or a ConfigMap, and the name of the file that it becomes."""

    kind: str
    name: str
    key: str
    file: str

    @property
    def source(self) -> dict[str, Any]:
        """As an item of a projected volume."""
        kind = "secret" if self.kind == "secret" else "configMap"
        return {kind: {"name": self.name, "items": [{"key": self.key, "path": self.file}]}}


@dataclass(frozen=True, slots=True)
class Given:
    """Settings, as texts by key, and the files they refer to."""

    texts: Mapping[str, object]
    references: Mapping[str, Reference] = field(default_factory=dict)

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> "Given":
        """`flags` as the command line or annotations have them: texts, or lists of texts."""
        texts: dict[str, object] = {}
        references: dict[str, Reference] = {}
        for key, value in flags.items():
            setting = _BY_KEY.get(key)
            if setting is None:
                load({key: value})  # its sentence names the nearest one
            elif key in REFUSED:
                raise ConfigurationError(f"{key} cannot be given here: {REFUSED[key]}.")
            elif setting.metavar == "PATH":
                references[key] = _reference(key, value)
            elif setting.is_map:
                texts[key] = _without_references(value, references)
            else:
                texts[key] = value
        return cls(texts, references)

    def with_annotations(self, annotations: Mapping[str, Any]) -> "Given":
        """Those of a pod win: `halfhitch/checks.interval_s: "30"`."""
        own = {
            name.removeprefix(PREFIX): str(value)
            for name, value in annotations.items()
            if str(name).startswith(PREFIX) and "." in name
        }
        more = Given.of(own)
        return Given({**self.texts, **more.texts}, {**self.references, **more.references})

    def checked(self) -> Settings:
        """Raises ConfigurationError with the sentence that the sidecar would have."""
        settings = load(self._with_stand_ins(), purpose=Purpose.CLIENT)
        for key in self.texts:
            if _BY_KEY[key].is_secret or _has_secret(settings.value_of(key)):
                raise ConfigurationError(
                    f"{key} has a secret, which would stand in the manifest: put it into a Secret, "
                    f"and give {_BY_KEY[file_setting(key)].flag} secret:NAME/KEY instead."
                )
        rules.check(settings, _RULES)
        if not settings.kafka.bootstrap:
            raise ConfigurationError(
                "kafka.bootstrap is not set: give --kafka-bootstrap, for example kafka:9092, or "
                f"the annotation {PREFIX}kafka.bootstrap."
            )
        if "handle.key_file" not in self.references:
            raise ConfigurationError(
                "handle.key_file is not set: give --handle-key-file secret:NAME/KEY, a Secret with "
                "the key that all instances sign handles with, the same one in every namespace "
                "(`halfhitch keygen` makes one)."
            )
        return settings

    def _with_stand_ins(self) -> dict[str, object]:
        """What `load` takes on this machine, which has none of the pod's files."""
        flags: dict[str, object] = {}
        options: list[str] = []
        for key, reference in self.references.items():
            read = _READ.get(key, key)
            if key not in _BY_KEY:
                options.append(f"{key}={os.devnull}")
            elif read == key:
                flags[key] = f"{_FILES}/{reference.file}"
            elif read in _BY_KEY:
                flags[read] = _STAND_IN
            elif read:
                options.append(f"{read}={_STAND_IN}")
        flags |= self.texts
        own = self.texts.get("kafka.options")
        if options:
            flags["kafka.options"] = [*options, *(own if isinstance(own, list) else ())]
        return flags


def _has_secret(value: object) -> bool:
    parts = value.values() if isinstance(value, Mapping) else ()
    return any(isinstance(part, Secret) and part.reveal() != _STAND_IN for part in parts)


def file_setting(key: str) -> str:
    """Which setting names the file with the secret that `key` must not hold."""
    files = {"auth.tokens": "auth.token_file", "rocketmq.access_keys": "rocketmq.access_key_file"}
    found = files.get(key, f"{key}_file")
    return found if found in _BY_KEY else "kafka.sasl_password_file"


def _reference(key: str, value: object) -> Reference:
    found = _REFERENCE.fullmatch(str(value))
    if found is None:
        raise ConfigurationError(
            f"{key} must be secret:NAME/KEY or configmap:NAME/KEY, not {str(value)!r}: a file of "
            "this machine is none of the pod's."
        )
    return Reference(found[1], found[2], found[3], file_name(key))


def file_name(key: str) -> str:
    """What the file is called that a setting or an option of Kafka's client names."""
    return FILE_NAMES.get(key, re.sub(r"[._]", "-", key))


def _without_references(value: object, references: dict[str, Reference]) -> list[str]:
    """Those that name files are taken out. Others would have the path for a value: a password."""
    kept = []
    for text in value if isinstance(value, list | tuple) else [value]:
        for part in re.split(r",(?=[a-z][a-z0-9._]*=)", str(text)):
            name, _, rest = part.partition("=")
            if not _REFERENCE.fullmatch(rest) or name not in NAMES:
                kept.append(part)
            elif name in FILES:
                references[name] = _reference(name, rest)
            else:
                raise ConfigurationError(f"kafka.options: {name} names no file{_instead(name)}.")
    return kept


def _instead(name: str) -> str:
    flags = [_BY_KEY[key].flag for key, read in _READ.items() if read == name]
    if flags:
        return f": give {flags[0]} secret:NAME/KEY instead"
    return ": give ssl.key.location, of a key without a password" if name in HIDDEN else ""


def environment(settings: Settings, references: Mapping[str, Reference]) -> list[dict[str, Any]]:
    """The variables, in the chart's order."""
    variables: dict[str, str] = {}
    options: dict[str, Any] = {}
    for key in sorted(settings.sources):
        value = settings.value_of(key)
        if _BY_KEY[key].is_map:
            # Passwords come as files; "none" follows from kafka.verify_host_names.
            plain = (row for row in value.items() if not isinstance(row[1], Secret))
            options.update(row for row in plain if row != _ANY_HOST)
        elif key not in references and not _BY_KEY[key].is_secret:
            variables[_BY_KEY[key].env] = _text(value)
    for key, reference in references.items():
        path = f"{_FILES}/{reference.file}"
        if key in _BY_KEY:
            variables[_BY_KEY[key].env] = path
        else:
            options[key] = path
    if options:
        variables["HALFHITCH_KAFKA_OPTIONS"] = json.dumps(
            dict(sorted(options.items())), separators=(",", ":")
        )
    variables["HALFHITCH_HTTP_SOCKET"] = _SOCKET
    for door in ("http", "admin"):
        group = getattr(settings, door)
        variables[f"HALFHITCH_{door.upper()}_HOST"] = group.host
        variables[f"HALFHITCH_{door.upper()}_PORT"] = str(group.port)
    name = {
        "name": "HALFHITCH_INSTANCE_ID",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
    }
    return [name, *({"name": name, "value": text} for name, text in variables.items())]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What is put into pods."""

    given: Given
    image: str
    mode: str = "native"
    transport: str = "auto"
    has_readiness: bool = True
    stop_after_s: int = 10

    def inject(self, where: str, template: Template, *, ends: bool = False) -> None:
        """Into this pod's template. `ends`: the pod is there to end, as a Job's."""
        metadata = template.setdefault("metadata", {}) or {}
        template["metadata"] = metadata
        annotations = metadata.get("annotations") or {}
        pod = self._checked(where, metadata, template.get("spec"), ends=ends)
        try:
            given = self.given.with_annotations(annotations)
            settings = given.checked()
        except ConfigurationError as error:
            raise NotInjected(f"{where}: {error.message}") from None
        self._has_time(where, pod, settings)
        _has_ports(where, pod, settings)
        has_socket = self._has_socket(where, annotations, pod)
        container = self.container(settings, given.references)
        if not self._is_probed_for_readiness(where, annotations):
            del container["readinessProbe"]
        place = "initContainers" if self.mode == "native" else "containers"
        for name in ("initContainers", "containers"):
            self._put(pod, name, container if name == place else None)
        self._mount(pod, given.references, settings, has_socket=has_socket)
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels[_OURS] = self.mode

    def _checked(self, where: str, metadata: Template, pod: Any, *, ends: bool) -> Template:
        if not isinstance(pod, MutableMapping) or not isinstance(pod.get("containers"), list):
            raise NotInjected(f"{where}: its pods have no containers.")
        if str(pod.get("hostNetwork")).lower() in _ON:
            raise NotInjected(
                f"{where}: its pods use the host's network, where the sidecar's doors would be "
                "open to all of the host: remove hostNetwork, or use a shared coordinator."
            )
        if ends and self.mode == "container":
            raise NotInjected(
                f"{where}: with --mode container the sidecar goes on when the work is done, and "
                "the pod never ends: use --mode native (Kubernetes 1.29)."
            )
        names = [one.get("name") for _, one in _containers(pod)]
        if NAME in names and _OURS not in (metadata.get("labels") or {}):
            raise NotInjected(
                f"{where}: it has a container named {NAME!r} that was not injected: rename it, or "
                "leave that pod to whoever put it there."
            )
        for one in _with_an_address(pod):
            raise NotInjected(
                f"{where}: its container {one!r} has a {_ADDRESS} of its own, which the sidecar's "
                f"would replace: remove it, or annotate the pods with {PREFIX}inject: 'false'."
            )
        return pod

    def _has_time(self, where: str, pod: Mapping[str, Any], settings: Settings) -> None:
        """A native sidecar stops behind the application; this one when the pod is told to."""
        grace_s = pod.get("terminationGracePeriodSeconds", _GRACE_S)
        least_s = self.stop_after_s + math.ceil(settings.drain.s_max) + _HAND_OVER_S
        if self.mode == "container" and isinstance(grace_s, int) and grace_s < least_s:
            raise NotInjected(
                f"{where}: its pods have {grace_s} s to stop, and with --mode container the "
                f"sidecar may take {least_s}: it goes on for {self.stop_after_s}, waits for "
                f"drain.s_max and hands over. Set terminationGracePeriodSeconds to {least_s}."
            )

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

    def container(self, settings: Settings, references: Mapping[str, Reference]) -> dict[str, Any]:
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
        container["resources"] = {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": "50m", "memory": "96Mi"},
        }
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
            {"name": "halfhitch-socket", "mountPath": "/run/halfhitch"},
            {"name": "halfhitch-secrets", "mountPath": _FILES, "readOnly": True},
            {"name": "halfhitch-no-token", "mountPath": _ACCOUNT, "readOnly": True},
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
        ordered = sorted(references.items(), key=lambda row: row[1].file)
        _replace(
            pod,
            "volumes",
            "name",
            {"name": "halfhitch-socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        )
        sources = [reference.source for _, reference in ordered]
        projected = {"defaultMode": 0o444, "sources": sources}
        _replace(pod, "volumes", "name", {"name": "halfhitch-secrets", "projected": projected})
        _replace(pod, "volumes", "name", {"name": "halfhitch-no-token", "emptyDir": {}})
        scheme = "https" if "http.tls_cert" in references else "http"
        address = f"unix:{_SOCKET}" if has_socket else f"{scheme}://127.0.0.1:{settings.http.port}"
        for _, one in _containers(pod):
            if one.get("name") == NAME:
                continue
            _replace(one, "env", "name", {"name": _ADDRESS, "value": address})
            if has_socket:
                mount = {"name": "halfhitch-socket", "mountPath": "/run/halfhitch"}
                _replace(one, "volumeMounts", "mountPath", mount)


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Template]]:
    for place in ("initContainers", "containers"):
        for one in pod.get(place) or ():
            if isinstance(one, MutableMapping):
                yield place, one


def _with_an_address(pod: Mapping[str, Any]) -> Iterator[str]:
    """Containers that are told of another sidecar or coordinator."""
    for _, one in _containers(pod):
        for variable in one.get("env") or () if one.get("name") != NAME else ():
            is_other = _OF_SIDECAR.fullmatch(str(variable.get("value"))) is None
            if variable.get("name") == _ADDRESS and is_other:
                yield str(one.get("name"))


def _has_ports(where: str, pod: Mapping[str, Any], settings: Settings) -> None:
    """All containers of a pod share its ports: whoever comes second cannot listen."""
    doors = {settings.http.port: "http", settings.admin.port: "admin"}
    if settings.rocketmq.enabled:
        doors[settings.rocketmq.port] = "rocketmq"
    for one in pod["containers"]:
        for port in one.get("ports") or () if one.get("name") != NAME else ():
            if door := doors.get(port.get("containerPort")):
                raise NotInjected(
                    f"{where}: its container {one.get('name')!r} has port {port['containerPort']}, "
                    f"and so would the sidecar's door {door}: give --{door}-port another, or the "
                    f"annotation {PREFIX}{door}.port."
                )


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
