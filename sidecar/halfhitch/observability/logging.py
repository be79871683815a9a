"""Log lines: for people or as JSON, one line each, without secrets.

    logger.info("took over partition %d", 3, extra={"action": "partition_taken", "partition": 3})

Owns the set-up of the standard library's logging and the two formats. Invariants: one record is one
line whatever text it carries (only a traceback, in the text format, adds indented lines); no secret
that was given to `set_up` is ever written. It decides no levels and rotates no files: stderr is
collected by whatever runs the process.
"""

import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, TextIO

from halfhitch.wire.plain import shown, shown_json

_MASK = "***"
_SECRET_CHARACTERS_MIN = 4  # masking shorter ones would eat ordinary text
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: Libraries that tell at INFO what nobody asked.
_QUIET = ("asyncio",)


def set_up(
    *,
    level: Literal["debug", "info", "warning", "error"] = "info",
    form: Literal["text", "json"] = "text",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Replace the root logger's handlers by one that writes to `stream` (stderr)."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter(secrets) if form == "json" else TextFormatter(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # A log that cannot be written (a closed pipe) must not fill stderr with tracebacks.
    logging.raiseExceptions = False


def mask_also(secrets: Iterable[str]) -> None:
    """Secrets that came later; those of before stay masked."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Redacting):
            handler.formatter.mask_also(secrets)


class _Redacting(logging.Formatter):
    """What both formats share: fields, time, and the mask over everything written."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets: list[str] = []
        self.mask_also(secrets)

    def mask_also(self, secrets: Iterable[str]) -> None:
        """These too, from now on."""
        # The longest first: a secret may contain another one.
        self._secrets = sorted(
            {
                *self._secrets,
                *(secret for secret in secrets if len(secret) >= _SECRET_CHARACTERS_MIN),
            },
            key=len,
            reverse=True,
        )

    def masked(self, text: str) -> str:
        """The text without any secret."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, _MASK)
        return text

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """What the call site gave as `extra`, `action` first."""
        extra = {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD and not name.startswith("_")
        }
        found = {"action": extra.pop("action")} if "action" in extra else {}
        return {**found, **{name: self._plain(value) for name, value in extra.items()}}

    def _plain(self, value: object) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.masked(str(value))

    def traceback(self, record: logging.LogRecord) -> str | None:
        """The exception's traceback, masked."""
        if record.exc_info and record.exc_info[0] is not None:
            return self.masked(self.formatException(record.exc_info))
        return self.masked(self.formatStack(record.stack_info)) if record.stack_info else None


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(_Redacting):
    """`2026-11-21T07:44:00.123Z INFO    halfhitch.owner: took over partition 3 [action=...]`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows indented."""
        fields = " ".join(f"{name}={value}" for name, value in self.fields(record).items())
        text = self.masked(record.getMessage())
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {text}"
        line = shown(f"{line} [{fields}]" if fields else line)
        traceback = self.traceback(record)
        if traceback:
            line += "".join(f"\n    {part}" for part in traceback.splitlines())
        return line


class JsonFormatter(_Redacting):
    """One JSON object a line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, tracebacks included."""
        # The fields first: none of them may pass itself off as the time, level or message.
        row: dict[str, object] = self.fields(record)
        row = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.masked(record.getMessage()),
            **{name: value for name, value in row.items() if name not in _ROW},
        }
        traceback = self.traceback(record)
        if traceback:
            row["exception"] = traceback
        return shown_json(row)


_ROW = frozenset({"time", "level", "logger", "message", "exception"})
