"""What librdkafka logs, a line of each kind now and then: one outage must not fill a disk.

Every client of a process tells on its own of every attempt to connect, and there are several
clients for each half partition. Of what is alike (kind of client, facility, broker) the first line
is told, then one for each window, and the windows double as long as it goes on. How many were left
out is told with the next one, or by `tell_left_out` once no more come.

Any thread may log: librdkafka's lines are handed over by whichever call serves its callbacks.
"""

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_WINDOW_S: Final = 30.0
_WINDOW_S_MAX: Final = 600.0
#: Without a line of its kind for so long, the next one is news again.
_CALM_S: Final = 60.0
#: Without any line for so long, what was left out is told.
_PAUSE_S: Final = 5.0
#: Kinds that are remembered; of more than that (a cluster of hundreds of brokers) all is told.
_KINDS_MAX: Final = 1_000

_BROKER: Final = re.compile(r"(?:[\w.\-]+|\[[0-9a-fA-F:]+\]):\d+(?![\w.])")
_NUMBER: Final = re.compile(r"-\d+$")
#: A connection that breaks is made again by the client: no error of ours, and no mere information.
_RETRIED: Final = frozenset({"FAIL", "REQTMOUT"})

#: Level, kind of client, facility, broker.
_Key = tuple[int, str, str, str]


@dataclass(slots=True)
class _Kind:
    """When lines of one kind came, and what was not told of them."""

    window_s: float
    until_s: float
    last_s: float
    left_out: int = 0


class ClientLog:
    """Stands where librdkafka's binding wants a logger, of which it calls `log` alone."""

    def __init__(self, out: logging.Logger, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._now_s = now_s
        self._lock = threading.Lock()
        self._kinds: dict[_Key, _Kind] = {}
        self._last_s = 0.0  # when any line came

    def log(self, level: int, form: str, facility: str, name: str, line: str) -> None:
        """One line: facility (FAIL, REQTMOUT, ...), the client's name, the text."""
        if facility in _RETRIED:
            level = logging.WARNING
        if not self._out.isEnabledFor(level):
            return
        left_out = self._left_out((level, _NUMBER.sub("", name), facility, _broker(line)))
        if left_out == 0:
            self._out.log(level, form, facility, name, line)
        elif left_out is not None:
            form += " (%d more of its kind were left out)"
            self._out.log(level, form, facility, name, line, left_out)

    def _left_out(self, key: _Key) -> int | None:
        """How many like it were left out since the last one was told; None: leave it out, too."""
        now_s = self._now_s()
        with self._lock:
            self._last_s = now_s
            kind = self._kinds.get(key)
            if kind is None or now_s - kind.last_s > _CALM_S:
                if kind is not None or len(self._kinds) < _KINDS_MAX:
                    self._kinds[key] = _Kind(_WINDOW_S, now_s + _WINDOW_S, now_s)
                return 0 if kind is None else kind.left_out
            kind.last_s = now_s
            if now_s < kind.until_s:
                kind.left_out += 1
                return None
            kind.window_s = min(2 * kind.window_s, _WINDOW_S_MAX)
            kind.until_s = now_s + kind.window_s
            left_out, kind.left_out = kind.left_out, 0
            return left_out

    def tell_left_out(self) -> None:
        """Once nothing comes any more, say in one line what was left out. Call it often."""
        now_s = self._now_s()
        found: dict[_Key, int] = {}
        with self._lock:
            if now_s - self._last_s < _PAUSE_S:
                return
            for key, kind in list(self._kinds.items()):
                if kind.left_out:
                    found[key], kind.left_out = kind.left_out, 0
                if now_s - kind.last_s > _CALM_S:
                    del self._kinds[key]
        if found:
            told = ", ".join(
                f"{count} {facility} of {client}{broker and ' with '}{broker}"
                for (_, client, facility, broker), count in found.items()
            )
            worst = max(level for level, _, _, _ in found)
            self._out.log(worst, "left out because others like them were told: %s", told)


def _broker(line: str) -> str:
    """The address the line speaks of; nothing if it speaks of none."""
    found = _BROKER.search(line)
    return "" if found is None else found.group()
