"""halfhitch tx trace, and tx list --state ended: what became of transactions.

Both ask the sidecar's admin door, which reads the audit topic. Keys and values are not in it, nor
where messages lie: the door looks on their topics for that, when it is asked to.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from halfhitch.config import Purpose
from halfhitch.errors import RequestError
from halfhitch.wire.plain import shown
from halfhitch_cli import selection as chosen
from halfhitch_cli.app import OK
from halfhitch_cli.client import AdminClient
from halfhitch_cli.options import Given
from halfhitch_cli.output import Output, OutputForm, Table, emit, printable, say

#: Of a key, a value or a header in a line; JSON has more of it.
_SHOWN_CHARS_MAX = 200

Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="A message's key, with --topic.", show_default=False
    ),
]
KeyTopic = Annotated[
    str | None, typer.Option("--topic", metavar="TEXT", help="Its topic.", show_default=False)
]
Offsets = Annotated[
    bool,
    typer.Option("--offsets", help="Look for its messages on their topics: where do they lie?"),
]
Values = Annotated[bool, typer.Option("--values", help="The same, with keys, values and headers.")]
TracedId = Annotated[
    str | None, typer.Argument(metavar="[ID]", show_default=False, help="Transaction id.")
]


def trace(
    given: Given,
    transaction_id: TracedId = None,
    output: Output = OutputForm.TABLE,
    group: chosen.Group = None,
    topic: KeyTopic = None,
    key: Key = None,
    offsets: Offsets = False,
    values: Values = False,
) -> int:
    """Tell what became of a transaction, pending or ended, line by line.

    By its id, or by a message's key: --key K --topic T tells of all with such a message that have
    ended. How long that is known: audit.retention_h.

    --offsets and --values read the topics that messages were forwarded to, about the time when they
    were: the sidecar needs Kafka's right Read for these. Messages that are not visible yet shows
    halfhitch tail TOPIC --uncommitted, parked ones halfhitch parked show.
    """
    if (transaction_id is None) is (key is None) or (key is not None and topic is None):
        raise typer.BadParameter("Name a transaction by its id, or by --key with --topic.")
    client = AdminClient.of(given.load(Purpose.CLIENT))
    query = {"id": transaction_id, "group": group, "topic": topic, "key": key}
    if offsets or values:
        query["look"] = "values" if values else "offsets"
    answer = client.find("/v1/stories", query)
    if not answer["stories"]:
        wanted = f"transaction {transaction_id}" if key is None else f"key {key} of topic {topic}"
        raise RequestError(_unknown(wanted, group, answer))
    if not output.is_for_people:
        emit(output, answer, [])
        return OK
    for story in answer["stories"]:
        sys.stdout.write("\n".join(printable(line) for line in lines_of(story)) + "\n")
        emit(output, story, [timeline(story)])
        if offsets or values:
            _tell_landed(story, values=values)
    _tell_rest(answer)
    return OK


def _tell_landed(story: Mapping[str, Any], *, values: bool) -> None:
    """Where the messages lie, under the story; what is missing goes to stderr."""
    forwarded = [event for event in story["events"] if event["what"] == "forwarded"]
    if not forwarded:
        say(f"{story['transaction_id']} was not forwarded: it lies on none of its topics.")
    for event in forwarded:
        for message in event["landed"]:
            sys.stdout.write(f"{landing(message, values=values)}\n")
        if event["landed_trouble"] is not None:
            say(f"Of {story['transaction_id']}, {event['landed_trouble']}.")


def landing(message: Mapping[str, Any], *, values: bool) -> str:
    """Where one message lies, in one line, whatever it says."""
    place = f"{message['topic']}/{message['partition']}@{message['log_offset']}"
    words = [f"{shown(place)}  message {message['index'] + 1}, {moment(message['stored_ms'])}"]
    content = message["content"]
    if content is not None:
        words += [f"{name}={_text(content, name)}" for name in ("key", "value")]
        words += [f"{shown(name)}={_header(raw)}" for name, raw in content["headers"]]
    elif values:
        words.append("its content is for who may operate on the group")
    return "  ".join(words)


def _text(content: Mapping[str, Any], name: str) -> str:
    encoded = content.get(f"{name}_base64")
    text = content.get(name) if encoded is None else f"base64:{encoded}"
    return "null" if text is None else _short(text, content[f"{name}_bytes"])


def _header(value: Any) -> str:
    if value is None:
        return "null"
    return _short(f"base64:{value['base64']}" if isinstance(value, dict) else value, None)


def _short(text: str, size_bytes: int | None) -> str:
    told = shown(text[:_SHOWN_CHARS_MAX])
    size = "" if size_bytes is None else f" ({size_bytes} bytes)"
    return told if len(text) <= _SHOWN_CHARS_MAX else f"{told}…{size}"


def ended(
    client: AdminClient, output: OutputForm, filters: chosen.Filters, since: str, limit: int
) -> int:
    """Show what has ended since then, newest first."""
    query = {
        "group": filters.group,
        "topic": filters.topic,
        "since_s": chosen.seconds(since, "--since"),
        "limit": limit,
    }
    answer = client.find("/v1/stories", query)
    emit(output, answer, [_table(answer["stories"])])
    if output.is_for_people:
        if not answer["stories"]:
            say(f"Nothing has ended in the last {since} that is known here. {how_far(answer)}")
        _tell_rest(answer)
    return OK


def lines_of(story: Mapping[str, Any]) -> list[str]:
    """What it is, in a sentence or two."""
    count = story["message_count"]
    messages = "1 message" if count == 1 else f"{count} messages"
    topics = ", ".join(story["topics"]) or "topics that are not known any more"
    told = f"{story['transaction_id']} of group {story['producer_group']}: {messages} for {topics}"
    state = story["state"].replace("_", " ")
    by = f"by {story['decided_by']}" if story["decided_by"] else ""
    reason = f"({story['reason']})" if story["reason"] else ""
    said = " ".join(filter(None, (by, reason)))
    if story["state"] == "pending" and said:  # it was put back since
        return [f"{told}.", f"It is pending again; it was decided before {said}."]
    return [f"{told}.", f"It is {state}{', ' if by else ' ' if reason else ''}{said}."]


def timeline(story: Mapping[str, Any]) -> Table:
    """Its events, line by line."""
    rows = []
    before_ms = None
    for event in story["events"]:
        at_ms = event["at_ms"]
        rows.append(
            [
                moment(at_ms),
                "" if before_ms is None else f"+{max(0, at_ms - before_ms) / 1000:.3f}s",
                event["what"].replace("_", " "),
                _what(event),
            ]
        )
        before_ms = at_ms
    return Table(columns=("Time", "after", "", ""), right=frozenset(("after",)), rows=rows)


def _what(event: Mapping[str, Any]) -> str:
    """The rest of a line."""
    what, number = event["what"], event["number"]
    parts: list[str] = []
    if what in ("asked", "answered"):
        parts.append(f"check {number}")
    if event["outcome"]:
        parts.append(event["outcome"].replace("_", " "))
    if event["by"]:
        parts.append(f"{'on' if what in _ON else 'by'} {event['by']}")
    if event["took_ms"] is not None:
        parts.append(f"after {event['took_ms']} ms")
    parts += [_target(target) for target in event["targets"]]
    if event["reason"]:
        parts.append(f"({event['reason']})")
    return ", ".join(parts)


#: Not somebody's doing: there it happened.
_ON = frozenset(("prepared", "lives_again", "forwarded", "dropped", "parked"))


def _target(target: Sequence[Any]) -> str:
    topic, partition = target[0], target[1]
    return str(topic) if partition is None else f"{topic}[{partition}]"


def _table(stories: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        columns=("Ended", "transaction", "group", "state", "by", "checks", "topics", "reason"),
        right=frozenset(("checks",)),
        rows=[
            [
                moment(story["ended_ms"]),
                story["transaction_id"],
                story["producer_group"],
                story["state"],
                story["decided_by"] or "",
                str(story["check_count"]),
                ",".join(story["topics"]),
                story["reason"] or "",
            ]
            for story in stories
        ],
    )


def moment(at_ms: int | None) -> str:
    """Here and to the millisecond; empty for a moment that is not known."""
    if at_ms is None:
        return ""
    told = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
    return f"{told}.{at_ms % 1000:03}"


def _unknown(wanted: str, group: str | None, answer: Mapping[str, Any]) -> str:
    whose = f" of group {group}" if group else ""
    return f"Nothing is known of {wanted}{whose}. {how_far(answer)}"


def how_far(answer: Mapping[str, Any]) -> str:
    """Since when anything is known, or why nothing is."""
    if answer["trouble"]:
        return str(answer["trouble"])
    since_ms = answer["kept_since_ms"]
    if since_ms is None:
        return "Nothing that has ended is kept yet: the audit topic is empty."
    age = chosen.age(max(0.0, (time.time_ns() // 1_000_000 - since_ms) / 1000))
    return (
        f"What has ended is kept since {moment(since_ms)}, {age} ago (audit.retention_h), and all "
        "of that was looked at."
    )


def _tell_rest(answer: Mapping[str, Any]) -> None:
    if answer["is_cut"]:
        say("There are more: --limit shows more of them, filters fewer.")
    if answer["hidden_count"] > 100:
        say(
            f"{answer['hidden_count']} records of the audit topic cannot be read yet, a Kafka "
            "transaction is open before them: ask again."
        )
    if answer["unknown_count"]:
        say(f"{answer['unknown_count']} records are of a newer release, and are not shown.")
