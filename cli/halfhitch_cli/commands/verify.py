"""halfhitch verify: replay all topics, and say whether anything is lost or doubled.

Owns the options, the shown form of the findings, and the exit codes: 0 clean, 3 not clean, 4 not
judged. Reads Kafka itself. A sidecar that answers is asked for its settings; none need run.
"""

import math
import resource
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from halfhitch.config import Settings
from halfhitch.errors import ConfigurationError
from halfhitch.verify.kafka_logs import KafkaVerifyLogs, verify_consumer
from halfhitch.verify.report import (
    OPEN_QUESTIONS,
    SENTENCES,
    Findings,
    Kind,
    Verdict,
    Where,
)
from halfhitch.verify.run import Outcome
from halfhitch.verify.run import verify as verify_logs
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli import moments, selection
from halfhitch_cli.app import NOT_JUDGED, OK, UNHEALTHY
from halfhitch_cli.kafka import KafkaAdmin
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table, emit, say
from halfhitch_cli.places import kafka_settings
from halfhitch_cli.scope import Scope, find_scope

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_SETTINGS = (
    *("kafka", "topics", "owner.transaction_timeout_ms", "ledger.horizon_s"),
    *("admin.host", "admin.port", "client", "auth"),
)
_STYLES = {kind.value: "red" for kind in Kind}
_VERDICTS = {
    Verdict.CLEAN: ("clean", OK),
    Verdict.NOT_CLEAN: ("NOT CLEAN", UNHEALTHY),
    Verdict.NOT_JUDGED: ("not judged", NOT_JUDGED),
}
_STYLES |= {"clean": "green", "NOT CLEAN": "red", "not judged": "yellow"}
_SHOWN_PLACES_MAX = 4
#: What became of records before the first that is left. The owners themselves trim both of their
#: logs behind what has ended: that is no loss, and a day-old installation has it too.
_OLDER = {"half": "done, trimmed", "op": "done, trimmed"}


def verify(
    given: Given,
    output: Output = OutputForm.TABLE,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TEXT",
            show_default=False,
            help="Only this target; repeatable. [default: all that topics.allow admits]",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            show_default=False,
            help="Judge what ended since then: 30m, 2h, 3d ago, or 2026-11-21T16:00Z. "
            "[default: all that is there]",
        ),
    ] = None,
    group: selection.Group = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000_000, help="Show so many of each kind.")
    ] = 100,
    open_wait_s: Annotated[
        float,
        typer.Option(
            "--open-wait-s", min=0.1, max=3_600, help="Wait so long for open Kafka transactions."
        ),
    ] = 20.0,
    judged_min: Annotated[
        float,
        typer.Option(
            "--judged-min",
            min=0,
            max=100,
            metavar="PERCENT",
            help="Say clean only if at least this much of what has ended could be judged.",
        ),
    ] = 50.0,
) -> int:
    """Is anything lost or doubled? Replays the half, op, parked and target topics.

    Reports transactions that are lost, torn, doubled, phantom, misrouted or corrupted, and those
    that have not ended. The system may be at work meanwhile, or stopped. Nothing is changed.

    It asks the sidecar at --admin-host and --admin-port where to look. Where none answers, give
    --topics-prefix and --topics-allow as the sidecars have them: it reads no other targets. It
    reads whole topics (--since shortens that) and takes some 150 bytes for each transaction.

    Exit code 0: clean. 3: not clean. 4: not judged: nothing wrong was found, and not enough could
    be looked at (see --judged-min). 1: it could not look at all. 2: wrong usage.

    Example: halfhitch verify --kafka-bootstrap kafka:9092 --topics-allow 'shop.*' --since 2h
    """
    settings = kafka_settings(given)
    began_s, since_ms = time.monotonic(), 0 if since is None else moments.since_ms(since)
    outcome, scope = _run(settings, topic or [], since_ms, open_wait_s, limit=limit, group=group)
    findings = outcome.findings
    if group is not None:
        _check_group(outcome, group)
    verdict = findings.verdict(judged_min / 100)
    data = _data(outcome, scope, since_ms, time.monotonic() - began_s)
    data = {"verdict": verdict.value, "judged_min_percent": judged_min, **data}
    emit(output, data, _tables(data))
    if verdict is Verdict.NOT_JUDGED:
        say(f"Not judged: {_why_not_judged(findings, judged_min)}")
    return _VERDICTS[verdict][1]


def _run(
    settings: Settings,
    targets: list[str],
    since_ms: int,
    open_wait_s: float,
    *,
    limit: int,
    group: str | None,
) -> tuple[Outcome, Scope]:
    config: dict[str, Any] = {
        **settings.kafka.options.for_client("consumer"),
        "bootstrap.servers": settings.kafka.bootstrap,
        "client.id": "halfhitch-verify",
        "log_level": 0,
        "error_cb": lambda _: None,  # what matters is told by what was asked
    }
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        scope = find_scope(settings, kafka.reach().cluster_id, targets)
        if scope.trouble is not None:
            say(f"Going on without the sidecar's settings. {scope.trouble}")
        names = InternalTopics(scope.prefix)
        consumer = verify_consumer(config, group=names.owner_group)
        try:
            logs = KafkaVerifyLogs(
                consumer,
                kafka.client,
                names=names,
                wanted=scope.wanted,
                wait_s=settings.kafka.start_wait_s,
                open_wait_s=open_wait_s,
            )
            outcome = verify_logs(
                logs,
                rules=scope.rules,
                since_ms=since_ms,
                limit=limit,
                group=group,
                tell=say if sys.stderr.isatty() else lambda _: None,
            )
            return outcome, scope
        finally:
            consumer.close()


def _check_group(outcome: Outcome, group: str) -> None:
    """Raises ConfigurationError for one of which nothing is known on any topic."""
    known = outcome.account.facts.groups
    if group not in known:
        near = get_close_matches(group, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "is topics.prefix the sidecar's?"
        raise ConfigurationError(
            f"No topic has a transaction of the producer group {group!r} (--group); {hint}"
        )


def _why_not_judged(findings: Findings, judged_min: float) -> str:
    if not findings.transactions:
        return "no transaction was found. Is topics.prefix the sidecar's?"
    if not findings.ended:
        return (
            "no transaction has ended within what the op log still holds, or since --since; run it "
            "sooner after some have."
        )
    judged = f"{findings.judged} of {findings.ended} that have ended could be judged"
    if OPEN_QUESTIONS & findings.unjudged.keys():
        return f"{judged}, and some leave a question open. See what was not judged, and why."
    return f"{judged}, --judged-min asks for {judged_min:g} %. See what was not judged, and why."


# -- for programs --------------------------------------------------------------------------------


def _data(outcome: Outcome, scope: Scope, since_ms: int, took_s: float) -> dict[str, Any]:
    findings, account = outcome.findings, outcome.account
    records = sum(place.records for place in account.places)
    return {
        "clean": findings.is_clean,
        "ended": findings.ended,
        "judged": findings.judged,
        "judged_share": round(findings.share, 4),
        "complete": findings.is_complete,
        "violation_counts": {kind.value: findings.violation_counts[kind] for kind in Kind},
        "violations": [
            {
                "kind": violation.kind.value,
                "producer_group": violation.producer_group,
                "transaction_id": violation.transaction_id,
                "message_indexes": list(violation.indexes),
                "where": [_where(where) for where in violation.where],
                "detail": violation.detail,
            }
            for violation in findings.violations
        ],
        "transactions": {
            "found": findings.transactions,
            "committed": findings.endings["committed"],
            "committed_and_judged_whole": findings.committed_judged,
            "rolled_back": findings.endings["rolled_back"],
            "parked": findings.endings["parked"],
            "contrary_decisions": account.contrary_count,
            "messages_of_reused_ids": account.reused_count,
            "unfinished": dict(sorted(findings.unfinished_counts.items())),
        },
        "unfinished": _unfinished(findings),
        "not_judged": _not_judged(findings),
        "window": {
            "since_ms": since_ms or None,
            "to_ms": account.newest_ms or None,
            "topics_prefix": scope.prefix,
            "topics_allow": list(scope.wanted.allow),
            "settings_of": scope.sidecar,
            "all_targets_read": account.layout.has_all_targets and not account.unread,
            "unreadable_topics": sorted(account.layout.unreadable),
            "topics": _topics(outcome),
        },
        "forwards_judged": findings.forwards_judged,
        "contents_judged": account.compared,
        "order_judged": False,  # decisions are forgotten when they are carried out
        "read": {
            "records": records,
            "seconds": round(took_s, 2),
            "facts_bytes": account.facts.size_bytes,
            "memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        },
    }


def _unfinished(findings: Findings) -> list[dict[str, Any]]:
    return [
        {
            "producer_group": one.producer_group,
            "transaction_id": one.transaction_id,
            "state": one.state,
            "message_count": one.message_count,
            "stored_ms": one.stored_ms,
            "reason": one.reason,
            "decision_source": one.source,
            "where": _where(one.where),
        }
        for one in findings.unfinished
    ]


def _not_judged(findings: Findings) -> list[dict[str, Any]]:
    return [
        {
            "reason": why.value,
            "count": count,
            "sentence": SENTENCES[why],
            "examples": [
                {"producer_group": example_group, "transaction_id": transaction_id}
                for example_group, transaction_id in findings.examples[why]
            ],
        }
        for why, count in sorted(findings.unjudged.items())
    ]


def _where(where: Where) -> dict[str, Any]:
    return {"topic": where.topic, "partition": where.partition, "offset": where.log_offset}


def _topics(outcome: Outcome) -> list[dict[str, Any]]:
    account = outcome.account
    layout = account.layout
    roles = {layout.half_topic: "half", layout.op_topic: "op", layout.parked_topic: "parked"}
    rows = []
    for topic in [*roles, *sorted(layout.targets)]:
        places = account.of_topic(topic)
        times = [place.first_ms for place in places if place.first_ms is not None]
        rows.append(
            {
                "topic": topic,
                "role": roles.get(topic, "target"),
                "partitions": len(places),
                "records": sum(place.records for place in places),
                "forwarded": sum(place.ours for place in places),
                "garbage": account.garbage[topic],
                "trimmed": any(place.is_trimmed for place in places),
                "from_ms": min(times, default=None),
            }
        )
    return rows


# -- for people ----------------------------------------------------------------------------------


def _tables(data: dict[str, Any]) -> list[Table]:
    tables = [_summary(data), _window_table(data["window"]["topics"])]
    if data["violations"]:
        tables.append(_violation_table(data["violations"]))
    if data["unfinished"]:
        tables.append(_unfinished_table(data["unfinished"]))
    if data["not_judged"]:
        tables.append(
            Table(
                columns=("Not judged", "why", "for instance"),
                right=frozenset(("Not judged",)),
                rows=[
                    [
                        str(row["count"]),
                        row["sentence"],
                        ", ".join(e["transaction_id"] for e in row["examples"][:2]),
                    ]
                    for row in data["not_judged"]
                ],
            )
        )
    return tables


def _summary(data: dict[str, Any]) -> Table:
    counts, transactions, read = data["violation_counts"], data["transactions"], data["read"]
    wrong = [f"{count} {kind}" for kind, count in counts.items() if count]
    unfinished = ", ".join(
        f"{count} {state.replace('_', ' ')}" for state, count in transactions["unfinished"].items()
    )
    looked_for = transactions["committed_and_judged_whole"]
    records, took_s = read["records"], read["seconds"]
    share = f" ({math.floor(1000 * data['judged_share']) / 10:g} %)" if data["ended"] else ""
    window = data["window"]
    source = f" (of {window['settings_of']})" if window["settings_of"] else ""
    rows = [
        ["verdict", _VERDICTS[Verdict(data["verdict"])][0]],
        ["judged", f"{data['judged']} of {data['ended']} that have ended{share}"],
        ["violations", ", ".join(wrong) or "none"],
        ["not ended", unfinished or "none"],
        ["committed", f"{transactions['committed']}, {looked_for} looked for message by message"],
        ["rolled back", str(transactions["rolled_back"])],
        ["parked", str(transactions["parked"])],
        ["contrary", f"{transactions['contrary_decisions']} decisions came after another had won"],
        ["reused ids", f"{transactions['messages_of_reused_ids']} other messages were dropped"],
        ["forwarded", f"{data['forwards_judged']} records, each asked for its commit"],
        ["contents", f"{data['contents_judged']} records, each compared with its digest"],
        ["until", _time(data["window"]["to_ms"])],
        ["read", f"{records} records in {took_s:.1f} s"],
        ["allowed", ", ".join(window["topics_allow"]) + source],
    ]
    if window["unreadable_topics"]:
        rows.append(["not readable", ", ".join(window["unreadable_topics"])])
    return Table(columns=("Verified", ""), rows=rows, styles=_STYLES)


def _window_table(topics: Sequence[dict[str, Any]]) -> Table:
    numbers = ("partitions", "records", "forwarded", "garbage")
    return Table(
        columns=("Topic", "role", *numbers, "from", "older ones"),
        right=frozenset(numbers),
        rows=[
            [
                row["topic"],
                row["role"],
                *(str(row[name]) for name in numbers),
                _time(row["from_ms"]),
                _OLDER.get(row["role"], "deleted") if row["trimmed"] else "none",
            ]
            for row in topics
        ],
    )


def _violation_table(violations: Sequence[dict[str, Any]]) -> Table:
    return Table(
        columns=("Violation", "transaction", "group", "messages", "where", "what"),
        styles=_STYLES,
        rows=[
            [
                row["kind"],
                row["transaction_id"],
                row["producer_group"],
                ",".join(map(str, row["message_indexes"])),
                _places(row["where"]),
                row["detail"],
            ]
            for row in violations
        ],
    )


def _unfinished_table(unfinished: Sequence[dict[str, Any]]) -> Table:
    now_ms = time.time_ns() // 1_000_000
    return Table(
        columns=("Not ended", "transaction", "group", "messages", "age", "where"),
        right=frozenset(("messages", "age")),
        rows=[
            [
                row["state"].replace("_", " "),
                row["transaction_id"],
                row["producer_group"],
                str(row["message_count"]),
                selection.age(max(0.0, (now_ms - row["stored_ms"]) / 1000)),
                _places([row["where"]]),
            ]
            for row in unfinished
        ],
    )


def _places(places: Sequence[dict[str, Any]]) -> str:
    shown = [f"{p['topic']}-{p['partition']}@{p['offset']}" for p in places[:_SHOWN_PLACES_MAX]]
    return " ".join(shown) + (" ..." if len(places) > len(shown) else "")


def _time(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


app.command(cls=PlainCommand)(settings_command(verify, only=_SETTINGS))
