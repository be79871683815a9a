"""The console: a few files for a browser, and the question who is asking.

    GET /             leads to the console
    GET /console      the page; what it is made of lies beside it, at /console/{file}
    GET /v1/me        whom the door takes the caller for; with ?group=g (repeated) what he may there

Owns CONSOLE and the handlers behind it. The files are the same for everybody and hold nothing, so
they need no token: a page cannot ask for one before it is there, and a link to a transaction must
open from a chat. All they show comes from the door's other routes, with the caller's own token.

No script runs but these files (Content-Security-Policy), no page frames them, and Trusted Types
keep text from becoming markup, should the console ever forget that.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from halfhitch.access import Right
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import json_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.errors import InvalidRequest

_HTML: Final = "text/html; charset=utf-8"
_SCRIPT: Final = "text/javascript; charset=utf-8"
#: By route name: the path, the file, and what it is.
_FILES: Final[Mapping[str, tuple[str, str, str]]] = {
    "console": ("/console", "console.html", _HTML),
    "console_style": ("/console/console.css", "console.css", "text/css; charset=utf-8"),
    "console_icon": ("/console/icon.svg", "icon.svg", "image/svg+xml"),
    **{
        f"console_{name}": (f"/console/{name}.js", f"{name}.js", _SCRIPT)
        for name in ("main", "asking", "shown", "lists", "story", "views", "acting")
    },
}
_HOME: Final = "console_home"
_ME: Final = "me"
#: Any query is passed over: what is shown stands behind the # and never reaches the door.
CONSOLE: Final[tuple[Route, ...]] = (
    Route(method="GET", pattern="/", name=_HOME, is_open=True, reads_query=True),
    *(
        Route(method="GET", pattern=path, name=name, is_open=True, reads_query=True)
        for name, (path, _, _) in _FILES.items()
    ),
    Route(method="GET", pattern="/v1/me", name=_ME, may_wait=True, reads_query=True),
)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = "".join(
    f"{name}: {value}\r\n"
    for name, value in (
        ("Content-Security-Policy", _POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),  # after an upgrade the page and its scripts belong together
    )
)
#: Not from the root: a prefix that a proxy has put in front stays.
_TO_CONSOLE: Final = b"HTTP/1.1 303 See Other\r\nLocation: console\r\nContent-Length: 0\r\n\r\n"
_GROUPS_MAX: Final = 100
_encode = msgspec.json.Encoder().encode


def console_handlers() -> dict[str, Handler]:
    """By route name. The files are read once."""

    def home(_: Request) -> bytes:
        return _TO_CONSOLE

    async def me(request: Request) -> bytes:
        caller = request.caller
        groups = _groups(request.query.decode())
        answer = {
            "name": caller.name,
            "rights": sorted(caller.rights),
            "sees_all": caller.sees_all,
            "may_operate": {group: caller.may(Right.OPERATE, group) for group in groups},
        }
        return json_reply(200, _encode(answer))

    handlers: dict[str, Handler] = {name: _served(name) for name in _FILES}
    return {**handlers, _HOME: home, _ME: me}


def _served(name: str) -> Handler:
    _, file_name, media_type = _FILES[name]
    body = files(__package__).joinpath("pages", file_name).read_bytes()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    reply = f"{head}{_HEADERS}\r\n".encode() + body

    def served(_: Request) -> bytes:
        return reply

    return served


def _groups(query: str) -> list[str]:
    """Producer groups that are asked about. Raises InvalidRequest."""
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_GROUPS_MAX
        )
    except ValueError:
        pairs = [("", "")]
    if any(name != "group" for name, _ in pairs):
        raise InvalidRequest(
            f"The only query parameter is group, in UTF-8, up to {_GROUPS_MAX} times."
        )
    return [group for _, group in pairs]
