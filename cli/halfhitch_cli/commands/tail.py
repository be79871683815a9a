"""halfhitch tail: the messages of topics, as readers of committed messages see them.

Owns the options and the order of the lines. Invariants: nothing is committed, joined or changed;
what is `visible` was read with read_committed; what is `invisible` lies in the half topic and has
no done mark.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer

from halfhitch.adapters.kafka.log_ends import Log
from halfhitch.adapters.kafka.scan import LogScan
from halfhitch.config import Settings
from halfhitch.core.model import ROLLED_BACK
from halfhitch.errors import RequestError
from halfhitch.wire.plain import shown_json
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli import completing, following, moments, selection
from halfhitch_cli.app import OK
from halfhitch_cli.kafka import KafkaAdmin
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import say
from halfhitch_cli.places import kafka_settings
from halfhitch_cli.records import Seen, as_json, as_line, seen
from halfhitch_cli.undone import Ended, Undone

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_SETTINGS = ("kafka", "topics.prefix", "admin.host", "admin.port", "client", "auth")
_GROUP = "halfhitch-tail"
#: How many, where nothing is said.
_LAST = 10
_Last = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--last",
        min=0,
        max=100_000,
        metavar="N",
        show_default=False,
        help=f"The last so many. [default: {_LAST}; all with --since]",
    ),
]


class Form(StrEnum):
    """What -o takes: a message is one line in both."""

    TEXT = "text"
    JSON = "json"


def tail(
    given: Given,
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC...",
            help="Topics to read.",
            show_default=False,
            autocompletion=completing.topics,
        ),
    ],
    last: _Last = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            show_default=False,
            help="All since then: 30m, 2h ago, or 2026-11-21T16:00Z; 0s with -f: only what comes.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    uncommitted: Annotated[
        bool,
        typer.Option(
            "--uncommitted",
            help="Also what is prepared for these topics and not visible yet, marked so.",
        ),
    ] = False,
    group: selection.Group = None,
    with_id: selection.WithId = None,
    output: Annotated[
        Form, typer.Option("-o", "--output", help="Text, or JSON lines.", case_sensitive=False)
    ] = Form.TEXT,
) -> int:
    """Show the messages of topics: the last ten, as a read_committed reader sees them.

    Where Kafka is, the sidecar is asked unless --kafka-bootstrap says. Keys and values are shown as
    text where they are UTF-8, else as base64; -o json has all of them, and the headers.

    Example: halfhitch tail orders --uncommitted -f
    """
    settings = kafka_settings(given)
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        kafka.reach()
        consumer = kafka.reader(_GROUP)
        try:
            look = _Look(consumer, settings, topics, _writer(output, uncommitted, group, with_id))
            look.past(last, None if since is None else moments.since_ms(since), uncommitted)
            if follow:
                look.on(uncommitted=uncommitted)
        except KeyboardInterrupt:
            return OK if follow else 130
        finally:
            consumer.close()
    is_filtered = bool(group or with_id or since is not None or last == 0)
    if not look.write.count:
        say(_nothing(topics, is_filtered=is_filtered, uncommitted=uncommitted))
    return OK


class _Writer:
    """Lines to stdout, of what the filters let through."""

    def __init__(self, line_of: Callable[[Seen], str], takes: Callable[[Seen], bool]) -> None:
        self._line_of = line_of
        self.takes = takes
        self.count = 0

    def __call__(self, messages: Iterable[Seen]) -> None:
        for message in messages:
            sys.stdout.write(self._line_of(message) + "\n")
            self.count += 1
        sys.stdout.flush()


def _writer(form: Form, uncommitted: bool, group: str | None, with_id: str | None) -> _Writer:  # noqa: FBT001
    def line_of(message: Seen) -> str:
        if form is Form.JSON:
            return shown_json(as_json(message))
        return as_line(message, with_state=uncommitted)

    def takes(message: Seen) -> bool:
        return group in (None, message.group) and with_id in (None, message.transaction_id)

    return _Writer(line_of, takes)


class _Look:
    """One look at some topics."""

    def __init__(
        self, consumer: Consumer, settings: Settings, topics: Sequence[str], write: _Writer
    ) -> None:
        self._consumer = consumer
        self._names = InternalTopics(settings.topics.prefix)
        self._topics = frozenset(topics)
        self._undone = Undone()
        self.write = write
        there = following.all_topics(consumer)
        for topic in topics:
            _require(topic, there)
        self._logs = following.logs_of({topic: there[topic] for topic in topics})
        self._internal = following.logs_of(
            {name: there.get(name, 0) for name in (self._names.half, self._names.op)}
        )
        self._read_to: dict[Log, int] = {}

    def past(self, last: int | None, since_ms: int | None, uncommitted: bool) -> None:  # noqa: FBT001
        """What is there: the last so many, all since a time, or of those the last so many."""
        ends = following.bounds(self._consumer, self._logs)
        if since_ms is None:
            last = _LAST if last is None else last
            found = self._last(last, ends)
        else:
            starts = following.starts_since(self._consumer, ends, since_ms)
            found = self._between(starts, ends)
        self._read_to.update({log: end for log, (_, end) in ends.items()})
        if uncommitted:
            self._read_undone()
            found += [
                message
                for message in self._undone.messages
                if self._is_wanted(message) and message.stored_ms >= (since_ms or 0)
            ]
        found.sort(key=lambda message: (message.stored_ms, message.half_partition is not None))
        self.write(found if last is None else found[-last:] if last else [])

    def on(self, *, uncommitted: bool) -> None:
        """What comes, without end."""
        scan = LogScan(self._consumer)
        scan.begin(self._read_to)
        while True:
            for record in scan.some():
                topic = record.topic()
                if uncommitted and topic == self._names.half:
                    message = self._undone.half(record)
                    if message is not None and self._is_wanted(message):
                        self.write([message])
                elif uncommitted and topic == self._names.op:
                    for ended in self._undone.op(record):
                        self._tell_dropped(ended)
                elif topic in self._topics:
                    self.write(filter(self.write.takes, [_seen(record)]))

    def _last(self, last: int, ends: Mapping[Log, tuple[int, int]]) -> list[Seen]:
        """Markers have offsets too, and so has what is filtered out: further back until enough."""
        reach = 4 * last + 16
        while True:
            starts = {log: max(low, end - reach) for log, (low, end) in ends.items()}
            found = self._between(starts, ends) if last else []
            is_all = all(starts[log] == low for log, (low, _) in ends.items())
            if len(found) >= last or is_all:
                return found
            reach *= 8

    def _between(
        self, starts: Mapping[Log, int], ends: Mapping[Log, tuple[int, int]]
    ) -> list[Seen]:
        found = map(_seen, following.read_between(self._consumer, starts, ends))
        return [message for message in found if self.write.takes(message)]

    def _read_undone(self) -> None:
        ends = following.bounds(self._consumer, self._internal)
        starts = {log: low for log, (low, _) in ends.items()}
        for record in following.read_between(self._consumer, starts, ends):
            if record.topic() == self._names.half:
                self._undone.half(record)
            else:
                self._undone.op(record)
        self._read_to.update({log: end for log, (_, end) in ends.items()})

    def _is_wanted(self, message: Seen) -> bool:
        return message.topic in self._topics and self.write.takes(message)

    def _tell_dropped(self, ended: Ended) -> None:
        dropped = [message for message in ended.messages if self._is_wanted(message)]
        if ended.ending <= ROLLED_BACK and dropped:
            what = "was rolled back: dropped" if ended.ending == ROLLED_BACK else "is parked"
            moment = time.strftime("%H:%M:%S", time.gmtime(ended.at_ms / 1000))
            say(f"{moment}  {ended.transaction_id} of {ended.group} {what}")


def _seen(record: Any) -> Seen:
    return seen(
        record.topic(), record.partition(), record.offset(), record.timestamp()[1], record.key(),
        record.value(), record.headers(),
    )  # fmt: skip


def _require(topic: str, there: Mapping[str, int]) -> None:
    if topic in there:
        return
    near = get_close_matches(topic, there, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    others = sorted(name for name in there if not name.startswith("__"))
    known = f" There are {', '.join(others[:10])}." if others and not near else ""
    raise RequestError(f"There is no topic {topic!r}.{hint}{known}")


def _nothing(topics: Sequence[str], *, is_filtered: bool, uncommitted: bool) -> str:
    where = ", ".join(topics)
    if is_filtered:
        return f"No message on {where} matches the filters."
    if uncommitted:
        return f"No message is visible on {where}, and none is prepared for it."
    return (
        f"No message is visible on {where}. What is prepared and not visible yet: "
        f"halfhitch tail {' '.join(topics)} --uncommitted"
    )


app.command(cls=PlainCommand)(settings_command(tail, only=_SETTINGS))
