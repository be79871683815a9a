"""Which objects make pods, and where in them the pods' template is.

Owns `Workload`, an object of a kind that is known, and `left_alone`, what is said of one that seems
to make pods and is not. A kind is one of its group: `Job` of batch is not Volcano's.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

from halfhitch.errors import RequestError

_TEMPLATE: Final = ("spec", "template")
#: Group and kind -> the way to its pods' template, and whether they are there to end.
_WAYS: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], bool]]] = {
    ("", "Pod"): ((), False),
    ("", "ReplicationController"): (_TEMPLATE, False),
    ("apps", "Deployment"): (_TEMPLATE, False),
    ("apps", "StatefulSet"): (_TEMPLATE, False),
    ("apps", "DaemonSet"): (_TEMPLATE, False),
    ("apps", "ReplicaSet"): (_TEMPLATE, False),
    ("batch", "Job"): (_TEMPLATE, True),
    ("batch", "CronJob"): (("spec", "jobTemplate", "spec", "template"), True),
    ("argoproj.io", "Rollout"): (_TEMPLATE, False),
}
KINDS: Final = "Deployment, StatefulSet, DaemonSet, Job, CronJob, Rollout (Argo) or Pod"
#: How deep a foreign kind is looked through.
_DEPTH_MAX: Final = 30


class NoManifest(RequestError):
    """A document that Kubernetes would not know; the text says which."""


class Workload:
    """What makes pods."""

    def __init__(self, where: str, document: MutableMapping[str, Any]) -> None:
        self.document = document
        way, self.ends = _WAYS[_kind(document)]
        self.where = f"{where}, {_name(document)}"
        found: Any = document
        #: Metadata that is not the pods', by its place.
        self.above: list[tuple[str, Mapping[str, Any]]] = []
        self.place = ".".join(way)
        for depth, name in enumerate(way):
            metadata = found.get("metadata") if isinstance(found, Mapping) else None
            if isinstance(metadata, Mapping):
                self.above.append((".".join((*way[:depth], "metadata")), metadata))
            found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, MutableMapping):
            raise NoManifest(f"{self.where}: it has no {'.'.join(way)}.")
        if not way:
            spec = found.get("spec")
            policy = spec.get("restartPolicy") if isinstance(spec, Mapping) else None
            self.ends = policy in ("Never", "OnFailure")
        self.template = found


def is_known(document: Mapping[str, Any]) -> bool:
    """Whether it makes pods, and is told how."""
    return _kind(document) in _WAYS and _referred(document) is None


def left_alone(where: str, document: Mapping[str, Any]) -> str | None:
    """What to tell of one that makes pods and gets no sidecar."""
    referred = _referred(document)
    if referred is not None:
        return (
            f"{where}, {_name(document)} is left alone: its pods are those of "
            f"{referred.get('kind', '?')}/{referred.get('name', '?')} (workloadRef), which is "
            "what gets the sidecar."
        )
    if _kind(document) in _WAYS or not _has_containers(document):
        return None
    return (
        f"{where}, {_name(document)} of {document['apiVersion']} is left alone: it has containers, "
        "and it is not known how it makes pods of them."
    )


def _kind(document: Mapping[str, Any]) -> tuple[str, str]:
    group, slash, _ = document["apiVersion"].rpartition("/")
    return group if slash else "", document["kind"]


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{document['kind']}/{name or '?'}"


def _referred(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Whose pods a Rollout takes, where they are not its own."""
    spec = document.get("spec")
    if _kind(document) != ("argoproj.io", "Rollout") or not isinstance(spec, Mapping):
        return None
    referred = spec.get("workloadRef")
    return referred if isinstance(referred, Mapping) and not spec.get("template") else None


def _has_containers(document: Any) -> bool:
    """Whether there is a list of containers in it, or one alone (Argo's Workflow), wherever."""
    found = _containers(document, _DEPTH_MAX)
    return any(isinstance(one, Mapping) and "image" in one for one in found)


def _containers(owner: Any, depth: int) -> Iterator[Any]:
    members = owner.items() if isinstance(owner, Mapping) else ()
    for name, value in members or enumerate(owner if isinstance(owner, list) else ()):
        if name == "containers" and isinstance(value, list):
            yield from value
        elif name == "container":
            yield value
        elif depth and isinstance(value, Mapping | list):
            yield from _containers(value, depth - 1)
