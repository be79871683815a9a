"""The charts, rendered and judged: Helm itself, Kubernetes' own schemas, the restricted profile.

Owns `rendered`, `wrong_objects` (what an API server of a version would refuse) and `unrestricted`
(what the pod security profile `restricted` would refuse). No cluster and no network.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import referencing
import yaml

from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CHARTS: Final = ROOT / "deploy" / "helm"
PARENT: Final = ROOT / "tests" / "deploy" / "parent"
#: The oldest with native sidecars on by default, the one that made them stable, and the one that
#: made MutatingAdmissionPolicy stable.
KUBERNETES: Final = ("1.29", "1.33", "1.36")

#: Ten times as fast as the one in Python, where it is there.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Object = dict[str, Any]


def render(
    chart: Path,
    values: Mapping[str, Any] | None = None,
    *,
    name: str = "demo",
    namespace: str = "shop",
) -> dict[str, str]:
    """What Helm makes of it, by template; raises what Helm raises."""
    import helm_python

    with helm_python.Chart.load(chart) as loaded:
        return loaded.render(dict(values or {}), name=name, namespace=namespace)


def rendered(
    chart: Path,
    values: Mapping[str, Any] | None = None,
    *,
    name: str = "demo",
    namespace: str = "shop",
) -> list[Object]:
    """Its objects."""
    parts = render(chart, values, name=name, namespace=namespace)
    texts = (text for part, text in parts.items() if not part.endswith(".txt"))
    return [one for text in texts for one in yaml.load_all(text, _LOADER) if one is not None]


def told(chart: Path, values: Mapping[str, Any] | None = None, *, name: str = "demo") -> str:
    """What Helm complains of; empty if it renders."""
    import helm_python

    try:
        render(chart, values, name=name)
    except helm_python.HelmError as error:
        return str(error)
    return ""


def parent_chart(folder: Path) -> Path:
    """A chart of somebody's own with the library in it, as `helm dependency update` leaves it."""
    chart = folder / "shop"
    shutil.copytree(PARENT, chart)
    shutil.copytree(CHARTS / "halfhitch-sidecar", chart / "charts" / "halfhitch-sidecar")
    return chart


def merged(*layers: Mapping[str, Any]) -> Object:
    """Values on top of each other, as Helm lays them."""
    result: Object = {}
    for layer in layers:
        for name, value in layer.items():
            below = result.get(name)
            is_both = isinstance(value, dict) and isinstance(below, dict)
            result[name] = merged(below, value) if is_both else copy.deepcopy(value)
    return result


# -- what an API server refuses ------------------------------------------------------------------

_OPERATOR: Final = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {"metadata": {"type": "object", "required": ["name"]}},
}
_STRINGS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_SELECTOR: Final = {"type": "object", "required": ["matchLabels"]}
_CREDENTIALS: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "credentials": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "key"],
            "properties": {"name": {"type": "string"}, "key": {"type": "string"}},
        }
    },
}


def _endpoints(name: str) -> Object:
    endpoint = {
        "type": "object",
        "additionalProperties": False,
        "required": ["port"],
        "properties": {
            "port": {"type": "string"},
            "path": {"type": "string"},
            "interval": {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"},
            "scheme": {"enum": ["http", "https"]},
            "tlsConfig": {"type": "object"},
            "authorization": _CREDENTIALS,
        },
    }
    spec = {
        "type": "object",
        "additionalProperties": False,
        "required": ["selector", name],
        "properties": {"selector": _SELECTOR, name: {"type": "array", "items": endpoint}},
    }
    return {**_OPERATOR, "properties": {**_OPERATOR["properties"], "spec": spec}}


#: Prometheus Operator's kinds, as far as the charts use them.
_OPERATOR_SCHEMAS: Final[Mapping[str, Object]] = {
    "ServiceMonitor": _endpoints("endpoints"),
    "PodMonitor": _endpoints("podMetricsEndpoints"),
    "PrometheusRule": {
        **_OPERATOR,
        "properties": {
            "spec": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "groups": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["name", "rules"],
                            "properties": {
                                "name": {"type": "string"},
                                "rules": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["expr"],
                                        "oneOf": [
                                            {"required": ["record"]},
                                            {"required": ["alert", "labels", "annotations"]},
                                        ],
                                        "properties": {
                                            "record": {"type": "string"},
                                            "alert": {"type": "string"},
                                            "expr": {"type": "string"},
                                            "for": {"type": "string"},
                                            "labels": _STRINGS,
                                            "annotations": _STRINGS,
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            }
        },
    },
}


def wrong_objects(objects: Iterable[Object], version: str) -> list[str]:
    """What an API server of that version refuses, each in one line; fields that it does not know
    among it."""
    found = []
    for one in objects:
        where = f"{one.get('kind')}/{one.get('metadata', {}).get('name')} in {version}"
        errors = _validator(str(one.get("apiVersion")), str(one.get("kind")), version)
        for error in errors.iter_errors(one):
            path = ".".join(str(part) for part in error.absolute_path)
            found.append(f"{where}: {path}: {error.message[:300]}")
    return found


@cache
def _validator(api_version: str, kind: str, version: str) -> jsonschema.Draft202012Validator:
    if api_version == "monitoring.coreos.com/v1":
        return jsonschema.Draft202012Validator(_OPERATOR_SCHEMAS[kind])
    folder = _schemas() / f"v{version}.0-local-strict"
    short = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    path = folder / f"{kind.lower()}-{short}.json"
    if not path.is_file():
        return jsonschema.Draft202012Validator({"not": {}, "title": f"no {kind} in {version}"})
    resource = referencing.Resource.from_contents(json.loads(path.read_text()))
    return jsonschema.Draft202012Validator(
        resource.contents, registry=resource @ _definitions(folder)
    )


@cache
def _definitions(folder: Path) -> referencing.Registry[Any]:
    contents = json.loads((folder / "_definitions.json").read_text())
    return referencing.Resource.from_contents(contents) @ referencing.Registry()


@cache
def _schemas() -> Path:
    spec = importlib.util.find_spec("kubernetes_validate")
    assert spec is not None, "kubernetes-validate is not installed: make setup"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema"


# -- pod security --------------------------------------------------------------------------------

_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def pod_specs(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """Each pod that these objects make: whose it is, and its spec."""
    for one in objects:
        kind, spec = one["kind"], one.get("spec", {})
        where = f"{kind}/{one.get('metadata', {}).get('name')}"
        if kind == "List":
            yield from pod_specs(one["items"])
        elif kind == "Pod":
            yield where, spec
        elif kind == "CronJob":
            yield where, spec["jobTemplate"]["spec"]["template"]["spec"]
        elif "template" in spec:
            yield where, spec["template"]["spec"]


def unrestricted(where: str, pod: Object, *, only: str | None = None) -> Iterator[str]:
    """What the pod security profile `restricted` refuses. `only`: look at that container alone."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield f"{where}: {name}"
    for volume in pod.get("volumes") or []:
        if not set(volume) - {"name"} <= _VOLUMES:
            yield f"{where}: volume {volume['name']} is none of the allowed kinds"
    of_pod = pod.get("securityContext", {})
    for container in [*(pod.get("initContainers") or []), *pod["containers"]]:
        if only is None or container["name"] == only:
            place = f"{where}, container {container['name']}"
            yield from _unrestricted_container(place, container, of_pod)


def _unrestricted_container(place: str, container: Object, of_pod: Object) -> Iterator[str]:
    own = container.get("securityContext", {})
    both = {**of_pod, **own}
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{place}: allowPrivilegeEscalation is not false"
    if own.get("privileged"):
        yield f"{place}: privileged"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield f"{place}: capabilities are not dropped"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{place}: capabilities are added"
    if both.get("runAsNonRoot") is not True:
        yield f"{place}: runAsNonRoot is not true"
    if both.get("runAsUser") == 0:
        yield f"{place}: runs as root"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"{place}: no seccomp profile"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield f"{place}: hostPort"
