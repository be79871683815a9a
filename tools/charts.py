"""Writes what follows from the charts' values and the table of settings: schemas and READMEs. What
annotations of a pod may say is in annotations.py, what options of Kafka's client may be in
chart_options.py.

    python tools/charts.py        writes those anew that differ (`make format` does)

`values.yaml` is the source: its defaults give the types, its comments (`# -- ...`) tell what they
are. What is below `settings` comes from the sidecar's own table. A value that is not in values.yaml
is refused by the schema, so a misspelt one is told before anything is rendered.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin

import yaml

from halfhitch.config import SETTINGS, Setting
from halfhitch.config.kafka_options import NAMES
from halfhitch.config.load import bounds
from halfhitch_cli.pod_resources import AMOUNTS, DEFAULTS, LOOKS_LIKE_AN_AMOUNT, SAID
from halfhitch_cli.pod_rules import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

CHARTS: Final = Path(__file__).resolve().parents[1] / "deploy" / "helm"

#: What a default does not tell, by the end of a value's path.
_ENUMS: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": ("native", "container"),
    "transport": ("socket", "tcp"),
    "doors.http.tls.clients": ("off", "wanted", "required"),
    "doors.admin.tls.clients": ("off", "wanted", "required"),
    "doors.rocketmq.tls.clients": ("off", "wanted", "required"),
    "image.pullPolicy": ("Always", "IfNotPresent", "Never"),
    "probes.startup.path": ("livez", "readyz"),
    "service.type": ("ClusterIP", "NodePort", "LoadBalancer"),
    "injection.policy.failurePolicy": ("Fail", "Ignore"),
    "injection.transport": ("auto", "socket", "tcp"),
}
_LEAST: Final[Mapping[str, int]] = {
    "coordinators.replicas": 1,
    "preStopSeconds": 0,
    "stopAfterSeconds": 0,
}


def _object(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": members}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_OBJECT_NAME: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"
#: By the end of a value's path.
_PATTERNS: Final[Mapping[str, str]] = {
    "image.tag": r"^([A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?$",
    "image.digest": r"^(sha256:[0-9a-f]{64})?$",
    "kubeVersion": r"^(v?[0-9]+[.][0-9]+([.+-].*)?)?$",
    "nameOverride": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    "fullnameOverride": r"^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
    "secretName": _OBJECT_NAME,
    "serviceAccount.name": _OBJECT_NAME,
    "serviceAccountName": _OBJECT_NAME,
    "priorityClassName": _OBJECT_NAME,
    "key": r"^[.]?[-_A-Za-z0-9][-._A-Za-z0-9]*$",
    "doors.bind": r"^[0-9A-Fa-f.:]+$",
    "metrics.interval": r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
}
_NULLABLE: Final = frozenset({"runAsUser", "runAsGroup"})
_INT_MAX: Final = 2_147_483_647  # an API server takes no larger one
_PORT: Final = {"type": "integer", "minimum": 1, "maximum": 65_535}
# As an API server takes their names, and the values of labels.
_KEY_NAME: Final = r"^([-a-z0-9.]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_ANNOTATIONS: Final = {**_object({}), "patternProperties": {_KEY_NAME: {"type": "string"}}}
_LABEL: Final = {"type": "string", "pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"}
_LABELS: Final = {**_object({}), "patternProperties": {_KEY_NAME: _LABEL}}
_NAMED: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 1}},
}
# As an API server takes amounts: 256Mi, 0.5, 250m; neither 256MB nor true.
_AMOUNTS: Final = {
    "type": "object",
    "additionalProperties": {
        "type": ["string", "number", "null"],
        "pattern": LOOKS_LIKE_AN_AMOUNT,
    },
}
# What is no text is refused by a template, with the cure.
_VARIABLE: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": r"^[^=\s]+$"},
        "value": {},
        "valueFrom": {"type": "object"},
    },
}
_SELECTOR: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"matchLabels": _LABELS, "matchExpressions": _list({"type": "object"})},
}
# Of an empty one Kubernetes makes: everybody, everywhere.
_PEER: Final = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "podSelector": _SELECTOR,
        "namespaceSelector": _SELECTOR,
        "ipBlock": {"type": "object", "required": ["cidr"]},
    },
}
_RULE: Final = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "to": {"type": "array", "items": _PEER, "minItems": 1},
        "ports": {"type": "array", "items": {"type": "object"}, "minItems": 1},
    },
}
#: What a default does not tell, by the end of a value's path. Kubernetes would refuse the rest
#: late, or take a misspelt name for none.
_SHAPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "commonLabels": _LABELS,
    "podLabels": _LABELS,
    "podAnnotations": _ANNOTATIONS,
    "nodeSelector": _LABELS,
    "service.annotations": _ANNOTATIONS,
    "serviceAccount.annotations": _ANNOTATIONS,
    "metrics.labels": _LABELS,
    "dashboards.labels": _LABELS,
    "dashboards.annotations": _ANNOTATIONS,
    "namespaceSelector": _SELECTOR,
    "resources": _object({"requests": _AMOUNTS, "limits": _AMOUNTS}),
    "affinity": _object(
        {name: {"type": "object"} for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")}
    ),
    "imagePullSecrets": _list(_NAMED),
    "extraEnv": _list(_VARIABLE),
    "tolerations": _list({"type": "object"}),
    "networkPolicy.clients": _list(_PEER),
    "networkPolicy.monitoring": _list(_PEER),
    "networkPolicy.kafkaPeers": _list(_PEER),
    "networkPolicy.redisPeers": _list(_PEER),
    "networkPolicy.kafkaPorts": _list(_PORT),
    "networkPolicy.redisPorts": _list(_PORT),
    "networkPolicy.extraEgress": _list(_RULE),
    "extraObjects": _list({"type": ["object", "string"]}),
    "maxUnavailable": {
        "type": ["integer", "string"],
        "minimum": 0,
        "pattern": "^([1-9]?[0-9]|100)%$",
    },
}

_COMMENT: Final = re.compile(r"^ *# ?(.*)$")
_KEY: Final = re.compile(r"^( *)([A-Za-z]\w*):(.*)$")


def described(text: str) -> dict[str, str]:
    """The comments of values.yaml by the path of the value that stands below them."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if remark := _COMMENT.match(line):
            said = remark[1]
            if said.startswith("-- "):
                comment = [said.removeprefix("-- ")]
            elif comment:
                comment.append(said)
        elif key := _KEY.match(line):
            indent = len(key[1])
            path = [*(part for part in path if part[0] < indent), (indent, key[2])]
            if comment:
                found[".".join(name for _, name in path)] = " ".join(comment)
            comment = []
        else:
            comment = []
    return found


def setting_schema(setting: Setting) -> dict[str, Any]:
    """What one setting may be, as YAML has it."""
    kind = setting.plain_type
    schema: dict[str, Any]
    if setting.is_map:
        names = "|".join(sorted(NAMES)).replace(".", "[.]")
        value = {"type": ["string", "number", "boolean", "null"]}
        schema = {**_object({}), "patternProperties": {f"^({names})$": value}}
    elif setting.is_list:
        schema = {"type": "array", "items": {"type": "string", "minLength": 1}, **_bounds(setting)}
        schema = {_OF_LISTS.get(name, name): value for name, value in schema.items()}
    elif kind is bool:
        schema = {"type": "boolean"}
    elif kind in (int, float):
        # Helm's numbers have 53 bits: what is larger would not come through as it is.
        schema = {"type": "integer" if kind is int else "number", "maximum": 2**53 - 1}
        schema |= _bounds(setting)
    elif get_origin(kind) is Literal:
        schema = {"enum": list(get_args(kind))}
    else:
        # Nothing is told by null; an empty text would be no path and no address.
        schema = {"type": "string", **({"minLength": 1} if setting.default is None else {})}
        schema |= _bounds(setting)
    return {"description": setting.description, **_or_null(schema)}


_OF_LISTS: Final = {"minLength": "minItems", "maxLength": "maxItems"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A file of values laid over another takes away by null what that one has."""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def _bounds(setting: Setting) -> dict[str, Any]:
    names = {
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "pattern": "pattern",
        "min_length": "minLength",
        "max_length": "maxLength",
    }
    return {
        names[name]: getattr(part, name)
        for part in bounds(setting)
        for name in names
        if getattr(part, name) is not None
    }


def settings_schema() -> dict[str, Any]:
    """All settings, by group. Those that the chart itself gives are refused by its templates,
    which say what to use instead."""
    groups: dict[str, dict[str, Any]] = {}
    for setting in SETTINGS:
        group, _, name = setting.key.partition(".")
        groups.setdefault(group, {})[name] = setting_schema(setting)
    return _object({name: _or_null(_object(members)) for name, members in groups.items()})


def value_schema(path: str, default: object, comments: Mapping[str, str]) -> dict[str, Any]:
    """What the value at `path` may be."""
    schema = _typed(path, default, comments)
    if path in comments:
        schema = {"description": comments[path], **schema}
    return schema


def _typed(path: str, default: object, comments: Mapping[str, str]) -> dict[str, Any]:
    if path == "settings" or path.endswith(".settings"):
        return settings_schema()
    if path in _ENUMS:
        return {"enum": list(_ENUMS[path])}
    if path in _NULLABLE:
        return {"type": ["integer", "null"], "minimum": 1, "maximum": _INT_MAX}
    if shape := _by_end(_SHAPES, path):
        return dict(shape)
    if isinstance(default, dict):
        if not default:
            return {"type": "object"}
        members = {name: f"{path}.{name}".lstrip(".") for name in default}
        schemas = {name: value_schema(at, default[name], comments) for name, at in members.items()}
        return _object(schemas)
    if path.endswith(".port"):
        return {**_PORT, "minimum": 0}  # which a template refuses, with the cure
    if isinstance(default, bool):
        return {"type": "boolean"}
    if isinstance(default, int):
        return {"type": "integer", "minimum": _LEAST.get(path, 1), "maximum": _INT_MAX}
    if isinstance(default, list):
        return {"type": "array"}
    pattern = _by_end(_PATTERNS, path)
    # A tag like a number: a template says to quote it.
    kinds = ["string", "number"] if path.endswith("image.tag") else "string"
    return {"type": kinds, "pattern": pattern} if pattern else {"type": kinds}


def needed(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """Values that templates stumble over where they are null, and the default of each; None for
    one with members. Where the default is nothing, so is null."""
    for name, value in values.items():
        path = f"{above}{name}"
        has_shape = _by_end(_SHAPES, path) is not None
        is_optional = has_shape or value in ("", [], {}) or path in _NULLABLE
        if not is_optional or path.endswith(("settings", "maxUnavailable")):
            yield path, None if isinstance(value, dict) and value else value
            if isinstance(value, dict):
                yield from needed(value, f"{path}.")


def _by_end(table: Mapping[str, T], path: str) -> T | None:
    found = (value for end, value in table.items() if f".{path}".endswith(f".{end}"))
    return next(found, None)


def schema_text(folder: Path) -> str:
    """values.schema.json of a chart."""
    text = (folder / "values.yaml").read_text()
    schema = value_schema("", yaml.safe_load(text), described(text))
    # A parent chart and Helm itself put these beside a chart's own values.
    schema["properties"]["global"] = {"type": "object"}
    if folder.name == "halfhitch-sidecar":
        schema["properties"]["enabled"] = {"type": "boolean"}
    return (
        json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, indent=2)
        + "\n"
    )


def rows(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """Each value with its path; what has members comes as its members."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value:
            yield from rows(value, path + ".")
        else:
            yield path, value


def values_table(folder: Path) -> str:
    """The table of a chart's values for its README."""
    text = (folder / "values.yaml").read_text()
    comments, values = described(text), yaml.safe_load(text)
    lines = ["| value | default | what it is |", "|---|---|---|"]
    told: set[str] = set()
    for path, default in rows(values):
        # A comment above several values of one line tells of all of them.
        name = path
        while name and name not in comments:
            name = name.rpartition(".")[0]
        if name and name != path:
            if name in told:
                continue
            told.add(name)
            default, path = _at(values, name), name  # noqa: PLW2901
        said = comments.get(name, "").replace("|", "\\|")
        lines.append(f"| `{path}` | `{json.dumps(default)}` | {said} |")
    return "\n".join(lines) + "\n"


def _at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


_BEGIN, _END = "<!-- values: made by tools/charts.py -->\n\n", "\n<!-- end of values -->\n"


def readme_text(folder: Path) -> str:
    """README.md of a chart with its table anew."""
    text = (folder / "README.md").read_text()
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}{values_table(folder)}{_END}{tail}"


_SETTINGS_HEAD: Final = """\
# Settings

One table for all ways to give a setting; made by `tools/charts.py` of the table that the sidecar
itself uses. In the file that `--config` names, the key is the table's and the value TOML's. As
environment, flag or annotation a list is separated by commas, and `kafka.options` is
`name=value,name=value`. A flag wins over the environment, the environment over the file.

The annotation stands in a pod's template and counts for `halfhitch inject`
([kubernetes.md](kubernetes.md)), where a file is `secret:NAME/KEY`. In the charts a setting is
`settings.<key>`. What inject and the charts give themselves, or take from a Secret, they refuse
with a sentence.

"""
_PODS_HEAD: Final = """
## Of the pod (values of the chart halfhitch)

| flag of `inject` | value | annotation | default | |
|---|---|---|---|---|
"""
#: What annotations say besides settings: flag, value, default, and what it does.
_OF_THE_POD: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "inject": ("", "", "", "`false` leaves these pods alone."),
    "readiness": (
        "`--readiness`, `--no-readiness`",
        "injection.readiness",
        "true",
        "Whether a pod is taken out of Services while its sidecar is not ready.",
    ),
    "transport": (
        "`--transport`",
        "injection.transport",
        "auto",
        "How the application reaches it. `auto` is the socket where the pod has an fsGroup.",
    ),
    **{
        name: (f"`--{name}`", f"injection.resources.{place}.{of}", DEFAULTS[name], SAID[name])
        for name, (place, of) in AMOUNTS.items()
    },
}
SETTINGS_PAGE: Final = CHARTS.parents[1] / "docs" / "settings.md"


def settings_page() -> str:
    """docs/settings.md."""
    lines = []
    panel = ""
    for setting in SETTINGS:
        if setting.panel != panel:
            panel = setting.panel
            lines += [
                f"## {panel}\n",
                "| key | flag | environment | annotation | default | |",
                "|---|---|---|---|---|---|",
            ]
        said = setting.description.replace("|", "\\|")
        lines.append(
            f"| `{setting.key}` | `{setting.flag}` | `{setting.env}` | `halfhitch/{setting.key}` "
            f"| {_shown(setting.default)} | {said} |"
        )
    text = "\n".join(lines).replace("\n## ", "\n\n## ")
    return f"{_SETTINGS_HEAD}{text}\n{_PODS_HEAD}{_of_the_pod()}"


def _of_the_pod() -> str:
    text = ""
    for word in WORDS:
        flag, *more, said = _OF_THE_POD[word]
        value, default = (f"`{each}`" if each else "" for each in more)
        text += f"| {flag} | {value} | `halfhitch/{word}` | {default} | {said} |\n"
    return text


def _shown(default: object) -> str:
    if callable(default):
        return "the host's name"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        default = ",".join(default)
    return "" if default in (None, "") or isinstance(default, Mapping) else f"`{default}`"


_NEEDED_HEAD: Final = """\
{{/*
Values that may not be null, each with its default; made by tools/charts.py. A schema cannot say
what to do about it.
*/}}
"""


def needed_text(folder: Path) -> str:
    """What the chart's templates know of values that must be there."""
    name = "halfhitch.sidecar" if folder.name == "halfhitch-sidecar" else "halfhitch"
    values = yaml.safe_load((folder / "values.yaml").read_text())
    lines = [f"{path}: {json.dumps(default)}" for path, default in needed(values)]
    head = f'{_NEEDED_HEAD}{{{{- define "{name}.needed" -}}}}\n'
    return head + "\n".join(lines) + "\n{{- end }}\n"


def made() -> Iterator[tuple[Path, str]]:
    """Every file that this writes, and its text."""
    yield SETTINGS_PAGE, settings_page()
    for folder in sorted(CHARTS.iterdir()):
        if (folder / "values.yaml").is_file():
            yield folder / "values.schema.json", schema_text(folder)
            yield folder / "templates" / "_needed.tpl", needed_text(folder)
            yield folder / "README.md", readme_text(folder)


def main() -> int:
    """Write what differs."""
    for path, text in made():
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
            print(f"{path} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
