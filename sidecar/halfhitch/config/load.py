"""Reads settings from flags, environment and file, and checks them.

Owns the precedence (flag, environment, file, default), the conversion of text to values and the
refusal of everything unknown. Invariants: a value that cannot be understood stops the program with
one line that names the setting, where the value came from and what would be right; the value of a
secret is in no such line. It does not decide what the settings are (settings.py) nor how they
relate (rules.py).
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from halfhitch.config import rules
from halfhitch.config.kafka_options import KafkaOptions, pairs_of
from halfhitch.config.secret import Secret
from halfhitch.config.settings import SETTINGS, Setting, Settings
from halfhitch.errors import ConfigurationError

ENV_PREFIX = "HALFHITCH_"
ENV_CONFIG = "HALFHITCH_CONFIG"
_ENV_NOT_SETTINGS = tuple(
    f"HALFHITCH_{name}" for name in ("ADDRESS", "SERVER", "PROFILE", "CONFIG", "CACHE_DIR")
)
_ENV_OF_TESTS = "HALFHITCH_TEST_"
# Kubernetes puts variables for every Service into every pod of its namespace. A Service named
# "halfhitch-http" gives HALFHITCH_HTTP_PORT=tcp://10.0.0.7:8340, which is nobody's setting.
_ENV_SERVICE_LINK = re.compile(
    r".*_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|.*_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://.*")
_CONFIG_BYTES_MAX = 1_048_576
_ACCESS_KEYS_MAX = 1_000
_SHOWN_CHARACTERS_MAX = 60
_BY_KEY = {setting.key: setting for setting in SETTINGS}
_BY_ENV = {setting.env: setting for setting in SETTINGS}


class Purpose(Enum):
    """What the settings are for, which decides what must be set."""

    SERVE = "serve"  # a sidecar: Kafka, a handle key, tokens on open doors
    TOOL = "tool"  # a command that talks to Kafka
    CLIENT = "client"  # a command that talks to a running sidecar


_PURPOSE_RULES = {
    Purpose.SERVE: rules.RULES + rules.SERVE_RULES,
    Purpose.TOOL: rules.RULES + rules.TOOL_RULES,
    Purpose.CLIENT: rules.RULES,
}


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config_path: Path | None = None,
    purpose: Purpose = Purpose.SERVE,
) -> Settings:
    """Settings from flags (by dotted key; None means not given), environment, file and defaults.

    The file is `config_path`, else what HALFHITCH_CONFIG names, else none. `environ` is taken as
    it is: hand over os.environ to read the environment. Raises ConfigurationError.
    """
    environ = environ if environ is not None else {}
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def take(setting: Setting, raw: object, source: str) -> None:
        values[setting.key] = _convert(setting, raw, source)
        sources[setting.key] = source

    path = config_path or (Path(environ[ENV_CONFIG]) if environ.get(ENV_CONFIG) else None)
    for setting, raw in _from_file(path) if path is not None else ():
        take(setting, raw, f"file {path}")
    for setting, text in _from_environ(environ):
        take(setting, text, f"env {setting.env}")
    for key, raw in (flags or {}).items():
        if raw is None:
            continue
        known = _BY_KEY.get(key)
        if known is None:
            raise ConfigurationError(f"There is no setting {key!r}{_nearest(key, _BY_KEY)}.")
        take(known, raw, f"flag {known.flag}")
    _read_secret_files(values, sources)
    settings = _assemble(values, sources)
    rules.check(settings, _PURPOSE_RULES[purpose])
    return settings


def _from_file(path: Path) -> Iterable[tuple[Setting, object]]:
    try:
        with path.open("rb") as file:
            content = file.read(_CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(
            f"The config file {str(path)!r} cannot be read: {error.strerror or error}."
        ) from None
    if len(content) > _CONFIG_BYTES_MAX:
        raise ConfigurationError(
            f"The config file {str(path)!r} is larger than {_CONFIG_BYTES_MAX} bytes."
        )
    import tomllib  # most commands have no file

    try:
        tree = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The config file {str(path)!r} is not TOML: {error}.") from None
    for key, raw in _flattened(tree, ""):
        setting = _BY_KEY.get(key)
        if setting is None:
            raise ConfigurationError(
                f"The config file {str(path)!r} has the unknown key {_shown(key)}"
                f"{_nearest(key, _BY_KEY)}."
            )
        yield setting, raw


def _flattened(tree: Mapping[str, object], prefix: str) -> Iterable[tuple[str, object]]:
    for name, value in tree.items():
        key = prefix + name
        if isinstance(value, Mapping) and not (key in _BY_KEY and _BY_KEY[key].is_map):
            yield from _flattened(value, key + ".")
        else:
            yield key, value


def _from_environ(environ: Mapping[str, str]) -> Iterable[tuple[Setting, str]]:
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name.startswith(_ENV_OF_TESTS):
            continue
        if name in _ENV_NOT_SETTINGS:
            continue
        if _ENV_SERVICE_LINK.fullmatch(name) or (
            name.endswith("_PORT") and _SERVICE_LINK_VALUE.fullmatch(environ[name])
        ):
            continue
        setting = _BY_ENV.get(name)
        if setting is None:
            near = _nearest(name, _ENV_NOT_SETTINGS, likeness=0.9) or _nearest(name, _BY_ENV)
            raise ConfigurationError(
                f"The environment has the unknown variable {_shown(name)}{near}."
            )
        yield setting, environ[name]


def _nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return f" (did you mean {near[0]}?)" if near else ""


def _convert(setting: Setting, raw: object, source: str) -> Any:
    if setting.is_map:
        return KafkaOptions(_pairs(setting, raw, source))
    is_text = not source.startswith("file ")
    if setting.is_list:
        if isinstance(raw, str):
            raw = [raw] if not is_text else raw.split(",")
        if isinstance(raw, list | tuple) and is_text:
            raw = [part.strip() for item in raw for part in str(item).split(",")]
    for text in raw if isinstance(raw, list) else [raw]:
        if isinstance(text, str) and (text != text.strip() or not text.isprintable()):
            raise ConfigurationError(
                f"{setting.key} must not begin or end with blanks nor contain line breaks "
                f"(from {source})."
            )
    if isinstance(raw, Path):
        raw = str(raw)
    try:
        return msgspec.convert(raw, setting.type, strict=not is_text, dec_hook=_special)
    except msgspec.ValidationError:
        shown = "" if setting.is_secret else f", not {_shown(raw)}"
        raise ConfigurationError(
            f"{setting.key} must be {expected(setting)}{shown} (from {source})."
        ) from None


def _special(kind: type, raw: object) -> object:
    if kind is Secret and isinstance(raw, str) and raw:
        return Secret(raw)
    if issubclass(kind, Path) and isinstance(raw, str) and raw:
        return Path(raw).expanduser()
    raise ValueError("wrong type")


def _pairs(setting: Setting, raw: object, source: str) -> Mapping[str, object]:
    """`a=1,b=2`, a list of such texts, a JSON object, or a table."""
    if isinstance(raw, Mapping):
        return dict(_flattened(raw, ""))
    pairs: dict[str, object] = {}
    for text in [raw] if isinstance(raw, str) else raw if isinstance(raw, list | tuple) else [""]:
        if str(text).lstrip().startswith("{"):
            try:
                decoded = json.loads(str(text))
            except ValueError:
                raise ConfigurationError(
                    f"{setting.key} looks like JSON, but is not (from {source})."
                ) from None
            pairs.update(decoded)
            continue
        for part in pairs_of(str(text)):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise ConfigurationError(
                    f"{setting.key} must be {expected(setting)} (from {source})."
                )
            pairs[name.strip()] = value
    return pairs


def expected(setting: Setting) -> str:
    """What a good value looks like, in words: "a whole number from 0 to 65535"."""
    if setting.is_map:
        return "pairs such as compression.type=lz4,client.rack=a"
    meta = _bounds(setting)
    if setting.is_list:
        inner = "one or two secrets" if setting.is_secret else "texts that are not empty"
        return f"{inner}, separated by commas"
    if setting.plain_type is bool:
        return "true or false"
    if get_origin(setting.plain_type) is Literal:
        return "one of " + ", ".join(get_args(setting.plain_type))
    if setting.plain_type in (int, float):
        noun = "a whole number" if setting.plain_type is int else "a number"
        low = meta.get("ge")
        above = f" above {meta['gt']}" if "gt" in meta else ""
        if low is not None and "le" in meta:
            return f"{noun} from {low} to {meta['le']}"
        if low is not None:
            return f"{noun} of at least {low}"
        return f"{noun}{above}" + (f" and at most {meta['le']}" if "le" in meta else "")
    if "pattern" in meta:
        return "made of letters, digits, '.', '_' and '-'"
    return "a path" if setting.plain_type is Path else "a text that is not empty"


def bounds(setting: Setting) -> tuple[msgspec.Meta, ...]:
    """What its values keep to: of the type, and of the one that stands there beside None."""
    inner = get_args(get_args(setting.type)[0])
    metas = (
        part
        for annotated in (setting.type, *(inner if NoneType in inner else ()))
        for part in getattr(annotated, "__metadata__", ())
    )
    return tuple(part for part in metas if isinstance(part, msgspec.Meta))


def _bounds(setting: Setting) -> dict[str, Any]:
    names = ("ge", "gt", "le", "pattern")
    return {
        name: getattr(part, name)
        for part in bounds(setting)
        for name in names
        if getattr(part, name) is not None
    }


def _read_secret_files(values: dict[str, Any], sources: dict[str, str]) -> None:
    """Secrets that a file holds take the place of the setting they stand for."""
    for file_key, key, count_max in (
        ("auth.token_file", "auth.tokens", 2),
        ("handle.key_file", "handle.key", 2),
        ("rocketmq.access_key_file", "rocketmq.access_keys", _ACCESS_KEYS_MAX),
        ("redis.url_file", "redis.url", 1),
        ("checks.url_token_file", "checks.url_token", 1),
    ):
        path = values.get(file_key)
        if path is None:
            continue
        if values.get(key):
            raise ConfigurationError(
                f"{key} (from {sources[key]}) and {file_key} (from {sources[file_key]}) are both "
                "set: keep one of them."
            )
        lines = _secret_lines(file_key, path)
        if len(lines) > count_max:
            raise ConfigurationError(
                f"{file_key} names {str(path)!r}, which has {len(lines)} lines: keep "
                + ("one, or two while rotating." if count_max == 2 else f"at most {count_max}.")
            )
        secrets = tuple(Secret(line) for line in lines)
        values[key] = secrets if _BY_KEY[key].is_list else secrets[0]
        sources[key] = f"file {path}"
    _complete_kafka_options(values)


def _complete_kafka_options(values: dict[str, Any]) -> None:
    """What settings of their own add to kafka.options."""
    options: KafkaOptions = values.get("kafka.options") or KafkaOptions()
    for file_key, name in (
        ("kafka.sasl_password_file", "sasl.password"),
        ("kafka.oauth_client_secret_file", "sasl.oauthbearer.client.secret"),
    ):
        path = values.get(file_key)
        if path is None:
            continue
        if name in options:
            raise ConfigurationError(
                f"{file_key} and {name} in kafka.options are both set: keep {file_key}."
            )
        options = options.with_secret(name, _secret_lines(file_key, path)[0])
    region = values.get("kafka.msk_iam_region")
    if region is not None:
        options = options.with_msk_iam(region)
    if values.get("kafka.verify_host_names") is False:
        options = options.with_any_host_name()
    if options:
        values["kafka.options"] = options


def access_key_pairs(path: Path) -> tuple[Secret, ...]:
    """What rocketmq.access_key_file holds now. Raises ConfigurationError."""
    lines = _secret_lines("rocketmq.access_key_file", path)
    if len(lines) > _ACCESS_KEYS_MAX:
        raise ConfigurationError(
            f"rocketmq.access_key_file names {str(path)!r}, which has {len(lines)} lines: keep at "
            f"most {_ACCESS_KEYS_MAX}."
        )
    return tuple(Secret(line) for line in lines)


def _secret_lines(file_key: str, path: Path) -> list[str]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(
            f"{file_key} names {str(path)!r}, which cannot be read: {reason}."
        ) from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ConfigurationError(f"{file_key} names {str(path)!r}, which is empty.")
    return lines


def _assemble(values: Mapping[str, Any], sources: dict[str, str]) -> Settings:
    groups: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        group, _, name = key.partition(".")
        groups.setdefault(group, {})[name] = value
    made = {
        field.name: field.type(**groups[field.name])
        for field in msgspec.structs.fields(Settings)
        if field.name in groups
    }
    return Settings(**made, sources=sources)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "..."
