"""What a sidecar in a pod is told: settings as flags and annotations say them, files as references.

Owns `Given`, which refuses what cannot stand in a manifest with the sentence that the sidecar would
have, and `environment`, the variables of the container. Knows nothing of pods.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from halfhitch.config import SETTINGS, Purpose, Settings, load, rules
from halfhitch.config.kafka_options import ALIASES, FILES, HIDDEN, NAMES, pairs_of
from halfhitch.config.secret import Secret
from halfhitch.config.tracing_rules import traces_can_be_told
from halfhitch.errors import ConfigurationError

PREFIX: Final = "halfhitch/"
#: Where the sidecar's files and its socket are.
FOLDER: Final = "/etc/halfhitch/secrets"
SOCKET: Final = "/run/halfhitch/data.sock"
_REFERENCE: Final = re.compile(r"(secret|configmap):([a-z0-9.-]+)/([A-Za-z0-9._-]+)")
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
#: Of a door that is off: its files need not be there, and the rest says nothing without them.
ROCKETMQ_ONLY: Final = ("rocketmq.tls_", "rocketmq.access_key")
#: Of those that a sidecar starts with, what needs no file's content.
_RULES: Final = (traces_can_be_told, rules.open_doors_have_a_lock)


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
        """Those of a pod win: `halfhitch/checks.interval_s: "30"`. Of `kafka.options` each does."""
        own = {
            name.removeprefix(PREFIX): str(value)
            for name, value in annotations.items()
            if str(name).startswith(PREFIX) and "." in name
        }
        more = Given.of(own)
        named = {name for part in more.options for name in _names(part)} | set(more.references)
        named |= {ALIASES[name] for name in named & set(ALIASES)}
        kept = {key: one for key, one in self.references.items() if key not in named}
        texts = {**self.texts, **more.texts}
        options = [*_without(named, self.options), *more.options]
        if options:
            texts["kafka.options"] = options
        return Given(texts, {**kept, **more.references})

    @property
    def options(self) -> list[str]:
        """Those of Kafka's client that name no files: pairs, or objects in JSON."""
        found = self.texts.get("kafka.options")
        return found if isinstance(found, list) else []

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
        for door in ("http", "admin", "rocketmq"):
            if getattr(settings, door).port == 0:
                raise ConfigurationError(
                    f"{door}.port is 0, which is any free port, and nobody in the pod would find "
                    "it: give a number from 1 to 65535, or leave it away."
                )
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

    def needed(self, settings: Settings) -> dict[str, Reference]:
        """Files that the sidecar reads: a secret that is not there holds the whole pod up."""
        return {key: one for key, one in self.references.items() if not _is_idle(key, settings)}

    def _with_stand_ins(self) -> dict[str, object]:
        """What `load` takes on this machine, which has none of the pod's files."""
        flags: dict[str, object] = {}
        options: list[str] = []
        for key, reference in self.references.items():
            read = _READ.get(key, key)
            if key not in _BY_KEY:
                options.append(f"{key}={os.devnull}")
            elif read == key:
                flags[key] = f"{FOLDER}/{reference.file}"
            elif read in _BY_KEY:
                flags[read] = _STAND_IN
            elif read:
                options.append(f"{read}={_STAND_IN}")
        flags |= self.texts
        if options:
            flags["kafka.options"] = [*options, *self.options]
        return flags


def _has_secret(value: object) -> bool:
    parts = value.values() if isinstance(value, Mapping) else ()
    return any(isinstance(part, Secret) and part.reveal() != _STAND_IN for part in parts)


def _is_idle(key: str, settings: Settings) -> bool:
    return key.startswith(ROCKETMQ_ONLY) and not settings.rocketmq.enabled


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
        for part in pairs_of(str(text)):
            name, _, rest = (side.strip() for side in part.partition("="))
            if not _REFERENCE.fullmatch(rest) or name not in NAMES:
                kept.append(part)
            elif name in FILES:
                references[name] = _reference(name, rest)
            else:
                raise ConfigurationError(f"kafka.options: {name} names no file{_instead(name)}.")
    return kept


def _names(part: str) -> list[str]:
    """Of a pair, or of an object in JSON."""
    if not part.lstrip().startswith("{"):
        return [part.partition("=")[0].strip()]
    try:
        return [str(name) for name in json.loads(part)]
    except ValueError:
        return []  # what reads it says so


def _without(names: Collection[str], parts: list[str]) -> list[str]:
    """Of an object in JSON the rest stays."""
    kept = []
    for part in parts:
        said = _names(part)
        rest = [name for name in said if name not in names]
        if rest == said:
            kept.append(part)
        elif rest:
            decoded = json.loads(part)
            kept.append(json.dumps({name: decoded[name] for name in rest}))
    return kept


def _instead(name: str) -> str:
    flags = [_BY_KEY[key].flag for key, read in _READ.items() if read == name]
    if flags:
        return f": give {flags[0]} secret:NAME/KEY instead"
    return ": give ssl.key.location, of a key without a password" if name in HIDDEN else ""


def environment(settings: Settings, references: Mapping[str, Reference]) -> list[dict[str, Any]]:
    """The variables, in the chart's order. `references` are those that are needed."""
    variables: dict[str, str] = {}
    options: dict[str, Any] = {}
    for key in sorted(settings.sources):
        if _is_idle(key, settings):
            continue
        value = settings.value_of(key)
        if _BY_KEY[key].is_map:
            # Passwords come as files; "none" follows from kafka.verify_host_names.
            plain = (row for row in value.items() if not isinstance(row[1], Secret))
            options.update(row for row in plain if row != _ANY_HOST)
        elif key not in references and not _BY_KEY[key].is_secret:
            variables[_BY_KEY[key].env] = _text(value)
    for key, reference in references.items():
        path = f"{FOLDER}/{reference.file}"
        if key in _BY_KEY:
            variables[_BY_KEY[key].env] = path
        else:
            options[key] = path
    if options:
        variables["HALFHITCH_KAFKA_OPTIONS"] = json.dumps(
            dict(sorted(options.items())), separators=(",", ":")
        )
    variables["HALFHITCH_HTTP_SOCKET"] = SOCKET
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
