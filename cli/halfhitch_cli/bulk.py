"""Doing something to many transactions: shown first, confirmed, carried out, and accounted for.

Invariants: nothing is done before somebody has agreed to the number (or said --yes), and never to
more than that; every transaction that was selected appears in the result, done or not, also when
Ctrl-C ends it; one failure stops no other, but when nobody answers any more the rest is left alone.
What matches and could not be reached is counted, and the exit code is 1 then.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfhitch.errors import BackendError, HalfHitchError, OutcomeUnknown
from halfhitch.service.reasons import REASON_CHARS_MAX
from halfhitch.wire.plain import is_plain, shown
from halfhitch_cli.app import ERROR, OK, STOPPED
from halfhitch_cli.client import AdminClient, Refusal, path_of
from halfhitch_cli.output import OutputForm, Table, emit, say
from halfhitch_cli.selection import Selection, unseen

if TYPE_CHECKING:
    from concurrent.futures import Future

_SHOWN_MAX = 10
_WHOLE = frozenset(("Transaction", "group"))
#: A longer table nobody reads: the failures and a count stand for it, JSON has all.
_TABLE_ROWS_MAX = 1_000
_PROGRESS_S = 5.0
#: Of one request about many; the door takes 16 KiB.
_CHUNK_MAX = 250
_CHUNK_BYTES_MAX = 12_000
_CHUNKS_AT_ONCE = 4
#: What was just decided is still listed for a moment.
_LAG_S = 0.5
_LOOKS_MAX = 20
#: After Ctrl-C, for the answers to what is under way.
_LAST_ANSWERS_S = 5.0
_NOBODY = "not tried: nobody answers"
_STOPPED = "not tried: stopped"
_UNDER_WAY = "not known: it was under way when this was stopped; to repeat it is safe"

Reason = Annotated[
    str,
    typer.Option(
        "--reason",
        metavar="TEXT",
        help="The reason; it is kept for those who look later.",
        show_default=False,
    ),
]
OptionalReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why.", show_default=False)
]
Operator = Annotated[
    str | None,
    typer.Option(
        "--operator", metavar="TEXT", help="Who decides. [default: user@host]", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

_Row = dict[str, Any]
#: None: done; else why not, and whether the next one will fare no better.
_Outcome = tuple[str, bool] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is to be done to each of them."""

    kind: str  # transactions or parked
    name: str  # the last part of the path
    verb: str  # Commit
    done: str  # committed
    reason: str
    operator: str | None
    parallel: int = 8
    asks: bool = True  # for confirmation
    needs_reason: bool = True


@dataclass(slots=True)
class Account:
    """What became of each. Another thread may set `is_stopped`; `tell` gets lines on the way."""

    done: list[_Row] = field(default_factory=list)
    failed: list[_Row] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)
    is_stopped: bool = False
    is_given_up: bool = False
    left_count: int = 0
    tell: Callable[[str], None] = say

    def note(self, row: _Row, outcome: _Outcome) -> None:
        self.seen.add(_key(row))
        if outcome is None:
            self.done.append(row)
        else:
            self.failed.append({**row, "failure": outcome[0]})


def carry_out(
    client: AdminClient,
    selected: Selection,
    action: Action,
    *,
    dry_run: bool,
    yes: bool,
    output: OutputForm,
) -> int:
    """Show, ask, do, account. The exit code."""
    check_texts(action.reason, action.operator or "x", needs_reason=action.needs_reason)
    account = Account()
    if not selected.rows:
        say("Nothing matches: nothing to do.")
    elif dry_run:
        account.left_count = selected.matching_count - len(selected.rows)
    else:
        if action.asks and not yes:
            _confirm(action, selected)
        do_all(client, selected, action, account)
    _tell(output, action, account, selected, dry_run=dry_run)
    if account.is_stopped:
        return STOPPED
    is_whole = not (account.failed or account.left_count or selected.is_partial)
    return OK if is_whole else ERROR


def do_all(client: AdminClient, selected: Selection, action: Action, account: Account) -> None:
    """Do it to as many as were agreed to: what came later is not among them."""
    order = {"reason": action.reason, "operator": action.operator or operator_here()}
    agreed_count, look, looks = selected.matching_count, selected, 0
    while True:
        room = agreed_count - len(account.seen)
        rows = [row for row in look.rows if _key(row) not in account.seen][:room]
        if rows:
            looks = 0
            _each(rows, _Doing(client, action, order), account, agreed_count)
        account.left_count = max(0, agreed_count - len(account.seen))
        is_over = account.is_stopped or account.is_given_up or not account.left_count
        looks += 1
        if is_over or selected.again is None or looks > _LOOKS_MAX:
            return
        if not rows and action.name == "check":
            return  # they stay where they are: more than one page of them is not seen
        try:
            time.sleep(0 if rows else _LAG_S)
            look = selected.again()
        except KeyboardInterrupt:
            account.is_stopped = True
        except HalfHitchError as error:
            account.tell(error.message)
            account.is_given_up = True
        if len(look.rows) == look.matching_count and not any(
            _key(row) not in account.seen for row in look.rows
        ):
            account.left_count = 0  # somebody else has decided the rest meanwhile
            return


def check_texts(reason: str, operator: str, *, needs_reason: bool) -> None:
    """Raises BadParameter unless people can read both in one line."""
    for flag, text in (("--reason", reason), ("--operator", operator)):
        is_good = is_plain(text) and len(text) <= REASON_CHARS_MAX
        if not is_good or (not text.strip() and (needs_reason or flag == "--operator")):
            raise typer.BadParameter(
                f"{flag} takes 1 to {REASON_CHARS_MAX} printable characters in one line."
            )


def operator_here() -> str:
    """Who is at this terminal, when it is not said."""
    try:
        import getpass  # of a terminal's doing, and few commands decide

        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"[:100]


def _confirm(action: Action, selected: Selection) -> None:
    rows = selected.rows
    groups = sorted({row["producer_group"] for row in rows})
    count = f"{selected.matching_count} transaction" + ("s" if selected.matching_count != 1 else "")
    whose = f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups"
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"This would {action.verb.lower()} {count} of {whose}, and nobody can be asked here: "
            "look with --dry-run, then add --yes."
        )
    for row in rows[:_SHOWN_MAX]:
        note = f"  ({row['reason']})" if row.get("reason") else ""
        say(f"  {row['producer_group']}  {row['transaction_id']}{note}")
    if selected.matching_count > _SHOWN_MAX:
        say(f"  and {selected.matching_count - min(len(rows), _SHOWN_MAX)} more")
    confirm(f"{action.verb} {count} of {shown(whose)}?")


def confirm(question: str) -> None:
    """Raises Abort, with what to say, unless the answer is yes."""
    if not typer.confirm(question, err=True):
        raise typer.Abort("Nothing was changed.")


class _Doing:
    """One request's work: many transactions where the door takes them, else one."""

    def __init__(self, client: AdminClient, action: Action, order: dict[str, str]) -> None:
        self._client = client
        self._action = action
        self._order = order
        self.is_many = action.kind == "transactions"
        self.parallel = _CHUNKS_AT_ONCE if self.is_many else action.parallel

    def chunks(self, rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
        """As one request takes them."""
        begin = size = 0
        for end, row in enumerate(rows):
            row_bytes = len(dumps(row["transaction_id"])) + 2
            if end - begin >= (_CHUNK_MAX if self.is_many else 1) or (
                size + row_bytes > _CHUNK_BYTES_MAX and end > begin
            ):
                yield rows[begin:end]
                begin, size = end, 0
            size += row_bytes
        yield rows[begin:]

    def __call__(self, rows: Sequence[_Row]) -> list[_Outcome]:
        if self.is_many and len(rows) > 1:
            try:
                return self._many(rows)
            except Refusal as error:
                if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
                    return [_failure(error)] * len(rows)
                # An older sidecar: one by one.
            except HalfHitchError as error:
                return [_failure(error)] * len(rows)
        return [self._one(row) for row in rows]

    def _many(self, rows: Sequence[_Row]) -> list[_Outcome]:
        by_group: dict[str, list[str]] = {}
        for row in rows:
            by_group.setdefault(row["producer_group"], []).append(row["transaction_id"])
        body = {**self._order, "transactions": by_group}
        results = self._client.post(f"/v1/many/{self._action.name}", body)["results"]
        if any(len(results.get(group, ())) != len(ids) for group, ids in by_group.items()):
            raise OutcomeUnknown("not known: the answer names others than were asked for")
        told = {group: iter(found) for group, found in results.items()}
        return [_outcome(next(told[row["producer_group"]])) for row in rows]

    def _one(self, row: _Row) -> _Outcome:
        action = self._action
        path = path_of(action.kind, row["producer_group"], row["transaction_id"], action.name)
        try:
            self._client.post(path, self._order)
        except HalfHitchError as error:
            return _failure(error)
        return None


def _outcome(result: dict[str, Any]) -> _Outcome:
    error = result.get("error")
    if error is None:
        return None
    return str(error["message"]), error.get("status") == HTTPStatus.SERVICE_UNAVAILABLE


def _failure(error: HalfHitchError) -> _Outcome:
    return error.reason if isinstance(error, Refusal) else error.message, is_outage(error)


def _each(rows: Sequence[_Row], doing: _Doing, account: Account, total_count: int) -> None:
    """All of them; what is not reached is noted as that."""
    from concurrent.futures import ThreadPoolExecutor, wait  # only this needs threads

    parallel = doing.parallel
    told_s = time.monotonic()
    chunks = list(doing.chunks(rows))
    window = parallel * (1 if doing.is_many else 4)
    with ThreadPoolExecutor(parallel) as pool:
        for begin in range(0, len(chunks), window):
            under_way = [
                (chunk, pool.submit(doing, chunk)) for chunk in chunks[begin : begin + window]
            ]
            try:
                wait([future for _, future in under_way])
            except KeyboardInterrupt:
                account.is_stopped = True
            outcomes = _settle(under_way, account)
            rest = chunks[begin + window :]
            account.is_given_up = bool(rest) and all(o is not None and o[1] for o in outcomes)
            if account.is_stopped or account.is_given_up:
                why = _STOPPED if account.is_stopped else _NOBODY
                for chunk in rest:
                    for row in chunk:
                        account.note(row, (why, True))
                return
            if rest and time.monotonic() - told_s > _PROGRESS_S:
                account.tell(f"{len(account.seen)} of {total_count}")
                told_s = time.monotonic()


def _settle(
    under_way: "Sequence[tuple[Sequence[_Row], Future[list[_Outcome]]]]", account: Account
) -> list[_Outcome]:
    """Note what became of these. After Ctrl-C the last answers are waited for, not for long."""
    from concurrent.futures import wait

    try:
        if account.is_stopped:
            not_begun = [future for _, future in under_way if future.cancel()]
            wait([f for _, f in under_way if f not in not_begun], _LAST_ANSWERS_S)
    except KeyboardInterrupt:
        pass  # whoever presses it twice means it
    outcomes: list[_Outcome] = []
    for rows, future in under_way:
        if future.cancelled():
            found: list[_Outcome] = [(_STOPPED, True)] * len(rows)
        elif future.done():
            found = future.result()
        else:
            found = [(_UNDER_WAY, True)] * len(rows)
        for row, outcome in zip(rows, found, strict=True):
            account.note(row, outcome)
        outcomes += found
    return outcomes


def is_outage(error: HalfHitchError | None) -> bool:
    """Whether the next transaction will fare no better."""
    return isinstance(error, BackendError) or (
        isinstance(error, Refusal) and error.status == HTTPStatus.SERVICE_UNAVAILABLE
    )


def _tell(
    output: OutputForm, action: Action, account: Account, selected: Selection, *, dry_run: bool
) -> None:
    rows = selected.rows if dry_run else account.done
    data = {
        "action": action.name,
        "dry_run": dry_run,
        "matching_count": selected.matching_count,
        "done_count": len(account.done),
        "failed_count": len(account.failed),
        "left_count": account.left_count,
        "missing_partitions": selected.missing_partitions,
        "left_out_count": selected.left_out_count,
        "stopped": account.is_stopped,
        "selected" if dry_run else "done": [_named(row) for row in rows],
        "failed": [{**_named(row), "reason": row["failure"]} for row in account.failed],
    }
    result = f"would be {action.done}" if dry_run else action.done
    lines = [[row["transaction_id"], row["producer_group"], result] for row in rows]
    if len(lines) > _TABLE_ROWS_MAX:
        lines = [["", "", f"{len(rows)} {result} (-o json names them)"]]
    failed = account.failed[:_TABLE_ROWS_MAX]
    lines += [[row["transaction_id"], row["producer_group"], row["failure"]] for row in failed]
    emit(
        output, data, [Table(columns=("Transaction", "group", "result"), rows=lines, whole=_WHOLE)]
    )
    if account.is_stopped:
        say("Stopped.")
    if account.failed:
        say(f"{len(account.done)} {action.done}, {len(account.failed)} not.")
    _tell_unreached(account, selected)


def _tell_unreached(account: Account, selected: Selection) -> None:
    if account.left_count:
        say(
            f"{account.left_count} of {selected.matching_count} that match are not among these: "
            "run it again, or with narrower filters."
        )
    if selected.missing_partitions:
        say(f"Not everything was seen: {unseen(selected.missing_partitions)}")
    if selected.left_out_count:
        say(
            f"{selected.left_out_count} more parked messages were not looked at, there are too "
            "many: run it again when these are done, or name one with --group and --id."
        )


def _named(row: _Row) -> _Row:
    return {"transaction_id": row["transaction_id"], "producer_group": row["producer_group"]}


def _key(row: _Row) -> tuple[str, str]:
    return row["producer_group"], row["transaction_id"]
