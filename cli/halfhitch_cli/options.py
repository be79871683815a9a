"""Flags made from the table of settings, and settings made from flags.

Owns `settings_command`, which gives a command one flag for every setting (or for some groups), and
`Given`, what such a command gets. Invariants: a flag, an environment variable and a file key exist
for every setting because all three come from the same row; no default and no check is repeated
here.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs

from halfhitch.config import SETTINGS, Purpose, Setting, Settings, load
from halfhitch.config.secret import Secret
from halfhitch_cli import contexts
from halfhitch_cli.output import say

_CONFIG = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="PATH", help="TOML file with settings; also HALFHITCH_CONFIG."
    ),
]


_SERVER = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The sidecar's admin door, http://host:port or https://host:port; also "
        "HALFHITCH_SERVER. [default: http://127.0.0.1:8341]",
    ),
]
_PROFILE = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Settings in ~/.config/halfhitch/NAME.toml; also HALFHITCH_PROFILE.",
    ),
]


#: An address without user, password and parameters is none, whatever else the setting may hold.
_PLAIN_URL = re.compile(r"[a-z+]+://[^@?]*")


@dataclass(frozen=True, slots=True)
class Given:
    """What was given on the command line: by setting's key; None where it was not."""

    flags: dict[str, object]
    config_path: Path | None

    def load(self, purpose: Purpose, **more: object) -> Settings:
        """Settings from these flags, the environment and the file; `more` are further flags."""
        return load(
            {**self.flags, **{key.replace("__", "."): value for key, value in more.items()}},
            environ=os.environ,
            config_path=self.config_path,
            purpose=purpose,
        )


def warn_of_secrets(given: Given, settings: Settings) -> None:
    """Say which secrets came as flags, that everybody on the machine can read."""
    for setting in SETTINGS:
        value = settings.value_of(setting.key) if setting.key in given.flags else None
        parts = value.values() if isinstance(value, Mapping) else value
        for part in parts if isinstance(parts, Iterable) else (parts,):
            if isinstance(part, Secret) and not _PLAIN_URL.fullmatch(part.reveal()):
                say(
                    f"halfhitch: {setting.flag} has a secret that every user of this machine can "
                    f"read in the list of processes: set {setting.env}, or use a file."
                )
                break


def settings_command(
    function: Callable[..., int],
    *,
    only: Sequence[str] | None = None,
    defaults: Mapping[str, object] | None = None,
    asks_sidecar: bool = False,
) -> Callable[..., int]:
    """A command that calls `function(given, **own)` and takes a flag for every setting.

    `only` limits the flags to some groups or settings ("kafka", "http.port"); `defaults` are those
    that the command itself has otherwise, for its help. Whoever has the group "client", or
    `asks_sidecar`, takes `--server` and `--profile` too. The function's own
    parameters besides `given` stay flags of the command.
    """
    rows = [
        structs.replace(row, default=(defaults or {}).get(row.key, row.default))
        for row in SETTINGS
        if only is None or row.key in only or row.key.partition(".")[0] in only
    ]
    names = {_parameter_name(setting): setting.key for setting in rows}
    is_client = asks_sidecar or (only is not None and "client" in only)
    own = [
        p for n, p in inspect.signature(function, eval_str=True).parameters.items() if n != "given"
    ]
    parameters = [
        *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own),
        *([_parameter("server", _SERVER), _parameter("profile", _PROFILE)] if is_client else []),
        _parameter("config", _CONFIG),
        *(_parameter(_parameter_name(setting), _annotation(setting)) for setting in rows),
    ]

    def command(**values: Any) -> int:
        flags = {key: values.pop(name) for name, key in names.items()}
        flags = {key: value for key, value in flags.items() if value is not None and value != []}
        path = values.pop("config")
        if is_client:
            flags, path = contexts.apply(
                flags, path, values.pop("server"), values.pop("profile"), os.environ
            )
        return function(Given(flags=flags, config_path=path), **values)

    command.__name__ = function.__name__
    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter_name(setting: Setting) -> str:
    return "setting_" + setting.key.replace(".", "_")


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _annotation(setting: Setting) -> Any:
    several = setting.is_list or setting.is_map
    # Text even for numbers: load() converts and complains in one way, wherever a value came from.
    option = typer.Option(
        setting.flag,
        help=setting.description + _default_note(setting),
        rich_help_panel=setting.panel,
        metavar=setting.metavar,
        show_default=False,
    )
    if several:
        return Annotated[list[str] | None, option]
    return Annotated[str | None, option]


def _default_note(setting: Setting) -> str:
    default = setting.default
    if callable(default):
        return " [default: the host's name]"
    if default is None or default in ("", ()) or setting.is_map:
        return ""
    if isinstance(default, bool):
        return f" [default: {str(default).lower()}]"
    if isinstance(default, tuple):
        return f" [default: {','.join(default)}]"
    return f" [default: {default:g}]" if isinstance(default, float) else f" [default: {default}]"
