"""Writes what the chart's policies know of `halfhitch inject`: what annotations of a pod may say,
and which pods cannot have a sidecar.

    python tools/annotations.py        writes it anew where it differs (`make format` does)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from halfhitch.config import SETTINGS
from halfhitch.config.kafka_options import ALIASES, FILES, HIDDEN, NAMES
from halfhitch_cli.pod_resources import AMOUNTS, LEAST_MEMORY, LOOKS_LIKE_AN_AMOUNT, NONE
from halfhitch_cli.pod_rules import LABELS, NATIVE_GRACE_S, SOCKET_FOLDERS, VOLUMES, WORDS
from halfhitch_cli.pod_settings import PREFIX, REFUSED, ROCKETMQ_ONLY, file_name, file_setting

_ROOT: Final = Path(__file__).resolve().parents[1]
_HEAD: Final = """\
{{/*
What annotations of a pod may say, as `halfhitch inject` takes it; made by tools/annotations.py.
`texts` become variables, `files` name a key of a Secret, `options` are Kafka's that name one.
`refused` are the pod's own matter, `secrets` belong into the file that is named behind them.
`known` are all of Kafka's options, `hidden` its secrets, `aliases` those with two names; `idle`
are those of a RocketMQ door that is off. Of the pod: `words` are annotations that are no settings,
`labels` all labels, `volumes` the sidecar's names, `socketFolders` is where its socket may be
mounted, and `graceSeconds` what it may take behind the application. `amounts` are those of the
words that are requests and limits, `amount` is what each looks like, `noAmount` says that there is
none, and `leastMemory` is what a limit may not be below.
*/}}
{{- define "halfhitch.annotations" -}}
"""
PLACE: Final = _ROOT / "deploy" / "helm" / "halfhitch" / "templates" / "_annotations.tpl"
#: From 1 to 65,535.
_LOOKS_LIKE_A_PORT: Final = (
    "^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
)
#: What a text must look like, by the type that it stands for.
_LOOKS: Final[Mapping[Any, str]] = {
    bool: "(?i)^(true|false|0|1)$",
    int: "^[0-9]+$",
    float: "^[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$",
}


def annotations_text() -> str:
    """What the chart's policies know of settings."""
    kinds: dict[str, dict[str, str]] = {"texts": {}, "files": {}, "refused": {}, "secrets": {}}
    for setting in SETTINGS:
        key, kind = setting.key, setting.plain_type
        if key in REFUSED:
            kinds["refused"][key] = REFUSED[key].replace("--transport ", f"{PREFIX}transport: ")
        elif setting.metavar == "PATH":
            kinds["files"][key] = file_name(key)
        elif setting.is_secret:
            kinds["secrets"][key] = file_setting(key)
        elif get_origin(kind) is Literal:
            kinds["texts"][key] = f"^({'|'.join(get_args(kind))})$".replace(".", "[.]")
        elif key.endswith(".port"):
            kinds["texts"][key] = _LOOKS_LIKE_A_PORT
        elif not setting.is_map:
            kinds["texts"][key] = _LOOKS.get(kind, ".")
    kinds["options"] = {name: file_name(name) for name in sorted(FILES)}
    kinds["aliases"] = dict(sorted(ALIASES.items()))
    lines = [
        line
        for name, members in kinds.items()
        for line in (f"{name}:", *(f"  {key}: {json.dumps(members[key])}" for key in members))
    ]
    facts = {
        "known": sorted(NAMES),
        "hidden": sorted(HIDDEN),
        "idle": f"^({'|'.join(ROCKETMQ_ONLY)})".replace(".", "[.]"),
        "rocketmqPort": next(str(one.default) for one in SETTINGS if one.key == "rocketmq.port"),
        "words": [PREFIX + word for word in WORDS],
        "labels": [PREFIX + word for word in LABELS],
        "volumes": VOLUMES,
        "socketFolders": SOCKET_FOLDERS,
        "graceSeconds": NATIVE_GRACE_S,
        "amounts": {name: list(place) for name, place in AMOUNTS.items()},
        "amount": LOOKS_LIKE_AN_AMOUNT,
        "noAmount": NONE,
        "leastMemory": LEAST_MEMORY,
    }
    lines += [f"{name}: {json.dumps(fact)}" for name, fact in facts.items()]
    return _HEAD + "\n".join(lines) + "\n{{- end }}\n"


def main() -> int:
    """Write it where it differs."""
    text = annotations_text()
    if not PLACE.is_file() or PLACE.read_text() != text:
        PLACE.write_text(text)
        print(f"{PLACE} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
