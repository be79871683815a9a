"""What a page asks the door, and the thread that asks again and again.

Invariants: a page is one or a few bounded requests; never more than a tenth of the time is spent on
the door, however short the interval; what fails of an overview is told in its place, and a door
that does not answer is told as that.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from halfhitch.errors import HalfHitchError
from halfhitch_cli.client import AdminClient, Refusal, TokenAsked
from halfhitch_cli.selection import Filters
from halfhitch_cli.top.numbers import Numbers, read

#: Rows of one page. The door skips no more than SKIP_MAX.
PAGE_ROWS: Final = 500
SKIP_MAX: Final = 10_000 - PAGE_ROWS
#: For an answer; a door that needs longer is told to be away, and asked again.
WAIT_S: Final = 20.0
#: So many times as long as the last look took.
_REST: Final = 9.0
_PAUSE_MAX_S: Final = 60.0
_FEW: Final = 5
#: Groups of one question about rights; the door takes 100.
_GROUPS_AT_ONCE: Final = 50

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is on the screen."""

    page: str = "overview"
    filters: Filters = field(default_factory=Filters)
    skip: int = 0


@dataclass(slots=True)
class Look:
    """What the door has answered to a wish; `failures` are sentences by what failed."""

    wish: Wish
    at_s: float
    took_s: float = 0.0
    status: Mapping[str, Any] = field(default_factory=dict)
    rows: Rows = field(default_factory=list)
    total_count: int = 0
    missing_partitions: Sequence[int] = ()
    left_out_count: int = 0
    parked_count: int | None = None
    groups: Rows = field(default_factory=list)
    stories: Rows = field(default_factory=list)
    numbers: Numbers | None = None
    failures: dict[str, str] = field(default_factory=dict)
    me: Mapping[str, Any] = field(default_factory=dict)

    @property
    def may_operate(self) -> bool:
        """Whether anything at all may be changed by whoever asks."""
        return "operate" in self.me.get("rights", ())


class Door:
    """Questions to one admin door. Used by one thread at a time."""

    def __init__(self, client: AdminClient) -> None:
        self.client = client

    def look(self, wish: Wish) -> Look:
        """Raises HalfHitchError when the door does not answer, or wants a token."""
        began_s = time.monotonic()
        found = Look(wish, began_s)
        found.status = self._find("/v1/status")
        found.me = self._me()
        _ASK[wish.page](self, found)
        found.took_s = time.monotonic() - began_s
        return found

    def may_operate(self, groups: Sequence[str]) -> set[str]:
        """Which of them. Raises HalfHitchError."""
        wanted, allowed = sorted(set(groups)), set()
        for begin in range(0, len(wanted), _GROUPS_AT_ONCE):
            asked = wanted[begin : begin + _GROUPS_AT_ONCE]
            try:
                told = self._find("/v1/me", group=asked)["may_operate"]
            except Refusal as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                told = dict.fromkeys(asked, True)  # an older sidecar: it decides, as it always does
            allowed |= {group for group in asked if told.get(group) is True}
        return allowed

    def _me(self) -> Mapping[str, Any]:
        try:
            me: Mapping[str, Any] = self._find("/v1/me")
        except Refusal as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return {"name": None, "rights": ["observe", "operate"]}
        return me

    def _find(self, path: str, **filters: object) -> Any:
        return self.client.find(path, filters, wait_s=WAIT_S)

    def _tried(self, found: Look, name: str, ask: Callable[[], Any]) -> Any:
        """Its answer; None when the door refuses this one."""
        try:
            return ask()
        except TokenAsked:
            raise
        except Refusal as error:
            found.failures[name] = error.reason
            return None

    def _overview(self, found: Look) -> None:
        page = self._tried(found, "undecided", lambda: self._find("/v1/transactions", limit=_FEW))
        if page:
            found.rows, found.total_count = page["transactions"], page["total_count"]
            found.missing_partitions = page["missing_partitions"]
        parked = self._tried(found, "parked", lambda: self._find("/v1/parked", limit=1))
        found.parked_count = parked and parked["total_count"]
        groups = self._tried(found, "groups", lambda: self._find("/v1/producers"))
        found.groups = groups["groups"] if groups else []
        ended = self._tried(
            found, "ended", lambda: self._find("/v1/stories", since_s=3_600, limit=_FEW)
        )
        found.stories = ended["stories"] if ended else []
        text = self._tried(found, "metrics", lambda: self.client.text("/metrics", wait_s=WAIT_S))
        if text is not None:
            found.numbers = read(text, time.monotonic())

    def _list(self, found: Look) -> None:
        wish = found.wish
        query = {**wish.filters.query(PAGE_ROWS), "skip": wish.skip or None}
        page = self.client.find(f"/v1/{wish.page}", query, wait_s=WAIT_S)
        found.rows, found.total_count = page["transactions"], page["total_count"]
        found.missing_partitions = page.get("missing_partitions", ())
        found.left_out_count = page.get("left_out_count", 0)

    def _groups(self, found: Look) -> None:
        rows = self._find("/v1/producers")["groups"]
        wanted = found.wish.filters.group
        rows = [row for row in rows if wanted in (None, row["producer_group"])]
        rows.sort(key=lambda row: -row["undecided_count"])
        found.rows, found.total_count = rows[:PAGE_ROWS], len(rows)

    def _partitions(self, found: Look) -> None:
        rows = found.status["partitions"]
        found.rows, found.total_count = rows[:PAGE_ROWS], len(rows)


_ASK: Final[Mapping[str, Callable[[Door, Look], None]]] = {
    "overview": Door._overview,  # noqa: SLF001 - its own
    "transactions": Door._list,  # noqa: SLF001
    "parked": Door._list,  # noqa: SLF001
    "groups": Door._groups,  # noqa: SLF001
    "partitions": Door._partitions,  # noqa: SLF001
}


class Looking:
    """A thread that looks every `interval_s`, or at once when it is woken.

    `told` gets a Look, or the error, on that thread. Nobody waits for it when it is over: it may
    stand in a request.
    """

    def __init__(
        self, door: Door, interval_s: float, told: Callable[[Look | HalfHitchError], None]
    ) -> None:
        self._door = door
        self._interval_s = interval_s
        self._told = told
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._is_over = False
        self._is_paused = False
        self._wish = Wish()
        self._asking_since_s: float | None = None

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="halfhitch-top", daemon=True).start()

    def stop(self) -> None:
        """Tell nothing any more."""
        self._is_over = True
        self._woken.set()

    def wish(self, wish: Wish) -> None:
        """Look at something else, now."""
        with self._lock:
            self._wish = wish
        self._woken.set()

    def again(self) -> None:
        """Look now."""
        self._woken.set()

    def pause(self, is_paused: bool) -> None:  # noqa: FBT001 - a switch
        """Look only when asked to."""
        self._is_paused = is_paused
        self._woken.set()

    @property
    def asking_s(self) -> float:
        """How long the door has been thinking; 0 when nothing is asked."""
        since_s = self._asking_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def _run(self) -> None:
        while not self._is_over:
            self._woken.clear()
            took_s = self._once()
            pause_s = max(self._interval_s, min(_PAUSE_MAX_S, _REST * took_s))
            self._woken.wait(None if self._is_paused else pause_s)

    def _once(self) -> float:
        with self._lock:
            wish = self._wish
        began_s = self._asking_since_s = time.monotonic()
        told: Look | HalfHitchError
        try:
            told = self._door.look(wish)
        except HalfHitchError as error:
            told = error
        except (KeyError, TypeError, ValueError, AttributeError):
            told = HalfHitchError(
                f"What answers on {self._door.client.address} is no sidecar's admin door, or of "
                "another release: check --server."
            )
        self._asking_since_s = None
        if not self._is_over:
            self._told(told)
        # A door that does not answer is not worked: it is asked again soon, to be seen coming back.
        return 0.0 if isinstance(told, HalfHitchError) else time.monotonic() - began_s
