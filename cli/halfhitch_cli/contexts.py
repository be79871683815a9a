"""Which sidecar a command speaks to: `--server URL`, or a profile with more settings.

A flag goes before the environment. Both are only other ways to write settings: `--server` stands
for admin.host, admin.port and client.tls, a profile is a config file in the user's folder.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from halfhitch.errors import ConfigurationError

_SERVER_VARIABLE = "HALFHITCH_SERVER"
_PROFILE_VARIABLE = "HALFHITCH_PROFILE"
_USUAL_PORT = 8341


def apply(
    flags: Mapping[str, object],
    config_path: Path | None,
    server: str | None,
    profile: str | None,
    environ: Mapping[str, str],
) -> tuple[dict[str, object], Path | None]:
    """Flags and config file as these say. Raises ConfigurationError."""
    found = dict(flags)
    if server and ("admin.host" in flags or "admin.port" in flags):
        raise ConfigurationError("--server says host and port: leave --admin-host and -port out.")
    server = server or environ.get(_SERVER_VARIABLE)
    if server:
        found = {**_door(server), **found}
    profile = profile or (None if config_path else environ.get(_PROFILE_VARIABLE))
    if profile:
        if config_path is not None:
            raise ConfigurationError("--profile names a config file: leave --config out.")
        config_path = _file_of(profile, environ)
    return found, config_path


def _door(server: str) -> dict[str, object]:
    try:
        url = urlsplit(server)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/") or url.query:
        raise ConfigurationError(
            f"--server (or {_SERVER_VARIABLE}) is {server!r}: write it as "
            f"http://127.0.0.1:{_USUAL_PORT} or https://halfhitch.shop.svc:{_USUAL_PORT}."
        )
    flags: dict[str, object] = {
        "admin.host": url.hostname, "admin.port": str(_USUAL_PORT if port is None else port)
    }  # fmt: skip
    if url.scheme == "https":
        flags["client.tls"] = "true"
    return flags


def _file_of(profile: str, environ: Mapping[str, str]) -> Path:
    root = environ.get("XDG_CONFIG_HOME")
    folder = (Path(root) if root else Path.home() / ".config") / "halfhitch"
    path = folder / f"{profile}.toml"
    if os.sep in profile or not path.is_file():
        there = ", ".join(sorted(file.stem for file in folder.glob("*.toml"))) or "none"
        raise ConfigurationError(
            f"There is no profile {profile!r} in {folder} (there: {there}). A profile is a config "
            "file with what you would give as flags; `halfhitch config init` shows all settings."
        )
    return path
