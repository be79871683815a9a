"""Where Redis is, as one URL.

    redis://[[user]:password@]host[:port][/db]              one server
    rediss://...                                            the same over TLS
    unix://[[user]:password@]/path/to/redis.sock[?db=0]     a unix socket
    redis+sentinel://[[user]:password@]host[:port],host[:port].../service[/db]
    redis+cluster://[[user]:password@]host[:port],host[:port]...
    rediss+sentinel://, rediss+cluster://                   the same over TLS

Options stand behind `?`, joined by `&`: with TLS `ca=/path` (whom to trust; else the machine's own
list), `cert=/path` and `key=/path` (our own certificate); with Sentinel `sentinel_user=` and
`sentinel_password=` where the Sentinels have a login of their own. Ports default to 6379, of
Sentinels to 26379. Reserved characters of a password are written percent encoded (`%40` for `@`).

Owns the text form and nothing else. Certificates are always verified; there is no option for less.
No sentence written here repeats a password, nor a URL that could not be read.
"""

import re
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from halfhitch.errors import ConfigurationError
from halfhitch.urls import split_hosts

Kind = Literal["server", "socket", "sentinel", "cluster"]

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_KINDS: Final[dict[str, tuple[Kind, bool]]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "unix": ("socket", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_SERVICE: Final = re.compile(r"[A-Za-z0-9._-]+")
_GOOD: Final = "write for example redis://:password@redis:6379/0"
_TLS_OPTIONS: Final = frozenset({"ca", "cert", "key"})
_SENTINEL_OPTIONS: Final = frozenset({"sentinel_user", "sentinel_password"})


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A URL that was understood."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""  # of a unix socket
    service: str = ""  # what the Sentinels call the primary
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    is_tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @property
    def label(self) -> str:
        """For people: where it is, without the login."""
        if self.kind == "socket":
            return self.path
        hosts = ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts
        )
        return f"{self.service} of the Sentinels {hosts}" if self.kind == "sentinel" else hosts

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return tuple(text for text in (self.password, self.sentinel_password) if text)


def parse(url: str) -> RedisAddress:
    """Read a URL. Raises ConfigurationError, whose sentence repeats no secret."""
    scheme, separator, _ = url.partition("://")
    known = _KINDS.get(scheme.lower())
    if not separator or known is None:
        raise ConfigurationError(
            f"redis.url does not begin with {', '.join(f'{name}://' for name in _KINDS)}: {_GOOD}."
        )
    kind, is_tls = known
    parts = split_hosts(url)
    if parts.fragment:
        raise ConfigurationError(
            "redis.url has a '#', which ends a URL: write it as %23 in a password."
        )
    login, _, named = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    options = _options(parts.query, kind, is_tls=is_tls)
    hosts: tuple[tuple[str, int], ...]
    if kind == "socket":
        hosts, service, database = (), "", _database(options.pop("db", ""))
        if named or not parts.path.startswith("/") or len(parts.path) < 2:
            raise ConfigurationError(
                "redis.url must hold the absolute path of the socket: unix:///run/redis.sock."
            )
    else:
        hosts = _hosts(named, _SENTINEL_PORT if kind == "sentinel" else _PORT)
        service, database = _path(parts.path, kind)
        if kind == "server" and len(hosts) > 1:
            raise ConfigurationError(
                "redis.url names several hosts: write redis+sentinel:// or redis+cluster://."
            )
    return RedisAddress(
        kind,
        hosts,
        unquote(parts.path) if kind == "socket" else "",
        service,
        database,
        unquote(username) or None,
        unquote(password) or None,
        options.get("sentinel_user"),
        options.get("sentinel_password"),
        is_tls,
        options.get("ca"),
        options.get("cert"),
        options.get("key"),
    )


def _hosts(named: str, port_else: int) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for text in named.split(","):
        match = _HOST.fullmatch(text.strip())
        port = port_else if match is None or match[2] is None else int(match[2])
        # Where a password holds an unencoded character, `text` may be a piece of it.
        if match is None or not 0 < port <= 65_535:
            raise ConfigurationError(
                "redis.url has no readable host[:port] where one belongs: encode reserved "
                f"characters of the password (@ as %40, / as %2F); {_GOOD}."
            )
        found.append((match[1].strip("[]"), port))
    return tuple(found)


def _path(path: str, kind: Kind) -> tuple[str, int]:
    """Service and database."""
    steps = [unquote(step) for step in path.strip("/").split("/")] if path.strip("/") else []
    if kind == "cluster" and steps not in ([], ["0"]):
        raise ConfigurationError("redis.url names a database, but a Redis Cluster has only one.")
    service = ""
    if kind == "sentinel":
        if not steps or _SERVICE.fullmatch(steps[0]) is None:
            raise ConfigurationError(
                "redis.url must name the service, as the Sentinels call the primary: "
                "redis+sentinel://host:26379/mymaster/0."
            )
        service = steps.pop(0)
    if len(steps) > 1:
        raise ConfigurationError(f"redis.url has too long a path: {_GOOD}.")
    return service, _database(steps[0] if steps else "")


def _database(text: str) -> int:
    if text and not re.fullmatch(r"[0-9]{1,5}", text):
        raise ConfigurationError(f"redis.url has a database that is no number: {_GOOD}.")
    return int(text or 0)


def _options(query: str, kind: Kind, *, is_tls: bool) -> dict[str, str]:
    allowed = set(_TLS_OPTIONS if is_tls else ())
    allowed |= _SENTINEL_OPTIONS if kind == "sentinel" else set()
    allowed |= {"db"} if kind == "socket" else set()
    try:
        found = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ConfigurationError(f"redis.url has unreadable options behind '?': {_GOOD}.") from None
    names = [name for name, _ in found]
    if len(set(names)) != len(names) or not set(names) <= allowed:
        # A name is not repeated here: behind a password's own '?' anything may stand.
        raise ConfigurationError(
            "redis.url has an option behind '?' that does not belong there; "
            + (f"possible are: {', '.join(sorted(allowed))}." if allowed else "it takes none.")
        )
    options = dict(found)
    if ("cert" in options) != ("key" in options):
        raise ConfigurationError("redis.url needs cert= and key= together.")
    return options
