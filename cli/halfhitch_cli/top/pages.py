"""What a page of `halfhitch top` shows, as text and tables. Pure; nothing of textual.

Invariants: what a door says goes through `wire.plain.shown` on its way into a Text, so it is no
markup and drives no terminal; nothing is said by colour alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from halfhitch.wire.plain import shown
from halfhitch_cli import output
from halfhitch_cli.commands import parked, producers, status, trace, tx
from halfhitch_cli.output import Table
from halfhitch_cli.selection import Filters, age, unseen
from halfhitch_cli.top.looking import Look
from halfhitch_cli.top.numbers import COUNTERS, Pace, bars

Row = Mapping[str, Any]
#: The page's name -> its title, in the order of the keys that lead there.
TITLES: Final[Mapping[str, str]] = {
    "overview": "Overview",
    "transactions": "Undecided",
    "parked": "Parked",
    "groups": "Groups",
    "partitions": "Partitions",
}
#: Wider cells are cut in a list; what is behind one is shown whole.
_CELL_MAX: Final = 48
_LABEL: Final = 15
_BARS_MAX: Final = 40
BAD, GOOD, DIM = "bold red", "green", "dim"


def _age(row: Row) -> float:
    return float(row["age_s"])


def _next_check(row: Row) -> float:
    next_s = row["next_check_s"]
    return -1.0 if next_s is None else float(next_s)


#: The first one is how a page begins; each as it is useful, the greatest first or the smallest.
SORTS: Final[Mapping[str, Mapping[str, tuple[Callable[[Row], Any], bool]]]] = {
    "transactions": {
        "age": (_age, True),
        "checks": (lambda row: row["check_count"], True),
        "next check": (_next_check, False),
        "group": (lambda row: row["producer_group"], False),
        "id": (lambda row: row["transaction_id"], False),
    },
    "parked": {
        "age": (lambda row: row["parked_ms"], False),
        "reason": (lambda row: row["reason"] or "", False),
        "group": (lambda row: row["producer_group"], False),
        "id": (lambda row: row["transaction_id"], False),
    },
    "groups": {
        "undecided": (lambda row: row["undecided_count"], True),
        "connected": (lambda row: row["link_count"], False),
        "group": (lambda row: row["producer_group"], False),
    },
    "partitions": {
        "number": (lambda row: row["partition"], False),
        "undecided": (lambda row: row["pending_count"], True),
        "oldest": (lambda row: row.get("oldest_age_s", 0.0), True),
        "behind": (lambda row: row.get("lag_s", 0.0), True),
    },
}
_TABLES: Final[Mapping[str, Callable[[list[Any]], Table]]] = {
    "transactions": tx.table,
    "parked": parked.table,
    "groups": producers.table,
    "partitions": status.partition_table,
}
_EMPTY: Final[Mapping[str, str]] = {
    "transactions": "Nothing that matches is undecided.",
    "parked": "Nothing that matches is parked.",
    "groups": "No producer that answers checks is connected, and none was asked lately.",
    "partitions": "This instance owns no half partition.",
}


@dataclass(frozen=True, slots=True)
class Sort:
    """How a list is sorted."""

    name: str
    is_reversed: bool = False


def first_sort(page: str) -> Sort:
    """How it begins."""
    return Sort(next(iter(SORTS[page])))


def next_sort(page: str, sort: Sort) -> Sort:
    """The one behind this one."""
    names = list(SORTS[page])
    return Sort(names[(names.index(sort.name) + 1) % len(names)])


def ordered(page: str, rows: Sequence[Row], sort: Sort) -> list[Row]:
    """The rows of a page, sorted. What is equal stays in the door's order."""
    key, falls = SORTS[page][sort.name]
    return sorted(rows, key=key, reverse=falls != sort.is_reversed)


def key_of(page: str, row: Row) -> tuple[str, str]:
    """What a row is, from one look to the next."""
    if page == "partitions":
        return "", str(row["partition"])
    return row["producer_group"], row.get("transaction_id", "")


# -- the lists -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a list as it is drawn."""

    name: str
    width: int
    is_right: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns that fit, and their cells: a text and a style each."""

    columns: Sequence[Column]
    cells: Sequence[Sequence[tuple[str, str]]]


def grid(page: str, rows: Sequence[Row], room: int) -> Grid:
    """As the command line's tables, in so much room; an id is cut where it is very long."""
    table = _TABLES[page](list(rows))
    lines = [[_cut(shown(cell)) for cell in row] for row in table.rows]
    places, _ = output.fitting(replace(table, rows=lines), room + 1)
    columns = [
        Column(
            table.columns[place],
            max([cell_len(table.columns[place]), *(cell_len(line[place]) for line in lines)]),
            table.columns[place] in table.right,
        )
        for place in places
    ]
    cells = [
        [(line[place], table.styles.get(line[place], "")) for place in places] for line in lines
    ]
    return Grid(columns, cells)


def _cut(text: str) -> str:
    return text if cell_len(text) <= _CELL_MAX else f"{set_cell_size(text, _CELL_MAX - 1)}…"


def about(look: Look, sort: Sort, marked_count: int) -> Text:
    """The line above a list: what is seen of how much."""
    page, count = look.wish.page, len(look.rows)
    if not look.total_count:
        text = Text(_EMPTY[page])
    elif count == look.total_count:
        text = Text(f"{count:,}")
    else:
        first = look.wish.skip + 1
        text = Text(f"{first:,} to {first + count - 1:,} of {look.total_count:,}, the oldest first")
        if page == "groups":
            text = Text(f"{count:,} of {look.total_count:,}")
    if count:
        turned = ", reversed" if sort.is_reversed else ""
        text.append(f"  by {sort.name}{turned}", DIM)
    told = told_filters(look.wish.filters)
    if told:
        text.append("  filter: ")
        text.append(shown(told), "bold")
    if marked_count:
        text.append(f"  {marked_count:,} marked", "bold")
    if look.missing_partitions:
        text.append(f"\nNot everything is shown: {unseen(list(look.missing_partitions))}", BAD)
    if look.left_out_count:
        text.append(f"\n{look.left_out_count:,} more parked messages were not looked at.", BAD)
    return text


def told_filters(filters: Filters) -> str:
    """As they were typed."""
    given = {
        "id": filters.transaction_id, "group": filters.group, "topic": filters.topic,
        "older": filters.older_than, "checks": filters.min_checks,
    }  # fmt: skip
    return " ".join(f"{name}={value}" for name, value in given.items() if value is not None)


# -- the overview --------------------------------------------------------------------------------


def overview(look: Look, pace: Pace, room: int) -> Text:
    """State, numbers and the oldest, in as few lines as a small terminal has."""
    lines = [*_state(look), *_counts(look, pace), Text()]
    lines += _rates(look, pace, room)
    lines += [Text(), *_few("Oldest undecided", [_pending_line(row) for row in look.rows])]
    lines += [Text(), *_few("Ended in the last hour", [_ended_line(row) for row in look.stories])]
    return Text("\n").join(lines)


def _line(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((label.ljust(_LABEL), DIM), (shown(text), style))


def _state(look: Look) -> Iterable[Text]:
    said = look.status
    if not said["ready"]:
        yield _line("State", f"not ready: {'; '.join(map(str, said['reasons']))}", BAD)
    else:
        troubles = [str(reason) for reason in said.get("degraded", [])]
        troubles += [str(p["trouble"]) for p in said["partitions"] if p["trouble"]]
        yield _line("State", "ready", GOOD) if not troubles else _line("State", "degraded", BAD)
        yield from (_line("", trouble, BAD) for trouble in dict.fromkeys(troubles))


def _counts(look: Look, pace: Pace) -> Iterable[Text]:
    failures = look.failures
    if "undecided" in failures:
        yield _line("Undecided", failures["undecided"], BAD)
    elif look.rows:
        oldest = look.rows[0]
        yield _line("Undecided", f"{look.total_count:,}, the oldest for {age(oldest['age_s'])}")
    else:
        yield _line("Undecided", "none")
    if look.parked_count is None:
        yield _line("Parked", failures.get("parked", "not known"), BAD)
    else:
        yield _line("Parked", f"{look.parked_count:,}", BAD if look.parked_count else "")
    alone = [
        g for g in look.groups if g["undecided_count"] and not (g["link_count"] or g["elsewhere"])
    ]
    if "groups" in failures:
        yield _line("Nobody to ask", failures["groups"], BAD)
    else:
        count = sum(group["undecided_count"] for group in alone)
        who = f"{_plural(count, 'transaction')} of {_plural(len(alone), 'group')}"
        told = f"for {who}" if alone else "never"
        yield _line("Nobody to ask", told, BAD if alone else "")
    waiting = sum(p.get("waiting_count", 0) for p in look.status["partitions"])
    if waiting:
        yield _line("Waiting", f"{waiting:,} for a topic that is away", BAD)
    yield _lag(look, pace)
    if look.missing_partitions:
        yield _line("", f"Not all is seen: {unseen(list(look.missing_partitions))}", BAD)


def _lag(look: Look, pace: Pace) -> Text:
    """How much readers do not see, for a Kafka transaction is open before it."""
    if look.numbers is None:
        return _line("LSO lag", look.failures.get("metrics", "not known"), DIM)
    behind = sorted(pace.unreadable.items(), key=lambda item: -item[1])
    worst = [f"{topic}/{number} {count:,.0f}" for (topic, number), count in behind if count][:3]
    told = f"{sum(pace.unreadable.values()):,.0f} records" + (
        f": {', '.join(worst)}" if worst else ""
    )
    return _line("LSO lag", told)


def _rates(look: Look, pace: Pace, room: int) -> Iterable[Text]:
    if look.numbers is None:
        return
    yield Text("Of this instance, a second", DIM)
    width = min(_BARS_MAX, max(0, room - 32))
    for name in COUNTERS:
        rate = pace.rates.get(name)
        text = Text(f"{name:<17}{'…' if rate is None else f'{rate:,.1f}':>10}  ")
        text.append(bars(list(pace.past.get(name, ())), width))
        yield text
    told = "…"
    if pace.visible_s is not None:
        told = f"{_short(pace.visible_s[0])}, of 99 % within {_short(pace.visible_s[1])}"
    yield Text(f"{'visible after':<17}{told:>10}")


def _short(length_s: float) -> str:
    return f"{length_s * 1000:.0f} ms" if length_s < 1 else f"{length_s:.1f} s"


def _few(title: str, lines: Sequence[Text]) -> Iterable[Text]:
    yield Text(title, DIM)
    yield from lines or [Text("none")]


def _pending_line(row: Row) -> Text:
    whom = "no producer" if row["next_check_s"] is None else (row["asked"] or "")
    told = f"{age(row['age_s']):>7}  {row['check_count']}/{row['check_max']}"
    text = Text(
        f"{told}  {shown(_cut(row['transaction_id']))}  {shown(_cut(row['producer_group']))}  "
    )
    return text.append(shown(_cut(whom)), BAD if row["next_check_s"] is None else DIM)


def _ended_line(story: Row) -> Text:
    clock = trace.moment(story["ended_ms"])[11:19]
    told = f"{clock}  {story['state'].replace('_', ' '):<11}  {_cut(story['transaction_id'])}"
    by = f" by {story['decided_by']}" if story["decided_by"] else ""
    return Text(shown(f"{told}  {_cut(story['producer_group'])}{by}"))


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


# -- the head ------------------------------------------------------------------------------------


def head(address: str, look: Look | None, told: str) -> Text:
    """The first line: which sidecar, whose token, how fresh."""
    text = Text("halfhitch ", "bold")
    if look is not None and look.status:
        text.append(f"{shown(str(look.status['info'].get('instance', '')))} ", "bold")
    text.append(address, DIM)
    if look is not None and look.me:
        name = look.me.get("name")
        if name:
            text.append(f"  {shown(str(name))}")
        if not look.may_operate:
            text.append("  read-only", "bold")
    return text.append(f"  {told}", DIM)


def tabs(page: str) -> Text:
    """The second line: the pages and their keys."""
    text = Text()
    for number, (name, title) in enumerate(TITLES.items(), 1):
        text.append(f" {number} {title} ", "reverse bold" if name == page else "")
        text.append(" ")
    return text
