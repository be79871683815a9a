"""What was found, as rows: for Parquet, for the page and for the terminal.

Owns the columns, which are a contract: programs read the tables. Text in them is shown as it stands
in Kafka; whoever shows it to people escapes it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from halfhitch.errors import ConfigurationError
from halfhitch.verify.report import SENTENCES, Kind, Verdict, Where
from halfhitch.wire.plain import shown
from halfhitch_spark.audit.measures import Measures, upper_of
from halfhitch_spark.audit.run import Result

Row = tuple[Any, ...]

VERDICTS: Final = {
    Verdict.CLEAN: "clean",
    Verdict.NOT_CLEAN: "NOT CLEAN",
    Verdict.NOT_JUDGED: "not judged",
}
_WHERE: Final = "array<struct<topic:string,partition:int,offset:bigint>>"
_COUNTS: Final = "judged bigint, committed bigint, rolled_back bigint, parked bigint, unfinished"


@dataclass(frozen=True, slots=True)
class Table:
    """`schema`: in Spark's words."""

    name: str
    schema: str
    rows: list[Row]

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return [column.split()[0] for column in self.schema.split(", ")]


def tables(result: Result, share_min: float) -> list[Table]:
    """All of them."""
    kinds = ", ".join(f"{kind.value} bigint" for kind in Kind)
    return [
        Table(
            "summary",
            "verdict string, clean boolean, complete boolean, transactions bigint, "
            f"ended bigint, {_COUNTS} bigint, {kinds}, contrary bigint, reused bigint, "
            "forwards_judged bigint, contents_judged bigint, records bigint, looks int, "
            "seconds double",
            [_summary(result, share_min)],
        ),
        Table(
            "groups",
            f"producer_group string, transactions bigint, ended bigint, {_COUNTS} bigint, "
            f"{kinds}, conflicts bigint",
            list(_groups(result)),
        ),
        Table(
            "topics",
            "topic string, role string, partitions int, records bigint, forwarded bigint, "
            "garbage bigint, trimmed boolean, hidden boolean, violations bigint",
            list(_topics(result)),
        ),
        Table(
            "violations",
            "kind string, producer_group string, transaction_id string, "
            f"message_indexes array<int>, places {_WHERE}, detail string",
            list(_violations(result)),
        ),
        Table(
            "unfinished",
            "state string, producer_group string, transaction_id string, messages int, "
            "stored_ms bigint, reason string, decision_source string, topic string, "
            "partition int, offset bigint",
            list(_unfinished(result)),
        ),
        Table(
            "conflicts",
            "kind string, producer_group string, transaction_id string, partition int, "
            "op_offset bigint, losing_op_offset bigint, messages int, stored_ms bigint",
            [
                (
                    *(c.kind, c.producer_group, c.transaction_id, c.partition, c.op_offset),
                    *(c.losing_op_offset, c.message_count, c.stored_ms),
                )
                for c in result.conflicts
            ],
        ),
        Table(
            "not_judged",
            "reason string, count bigint, sentence string, producer_group string, "
            "transaction_id string",
            list(_not_judged(result)),
        ),
        *_distributions(result.measures),
    ]


def _distributions(measures: Measures) -> list[Table]:
    return [
        Table(
            "distributions",
            "measure string, producer_group string, topic string, count bigint, p50 double, "
            "p95 double, p99 double, max double",
            [
                (
                    *(d.measure, d.producer_group, d.topic, d.count),
                    *(d.quantile(share) for share in (0.5, 0.95, 0.99, 1.0)),
                )
                for d in measures.distributions()
            ],
        ),
        Table(
            "histograms",
            "measure string, producer_group string, topic string, upper double, count bigint",
            [
                (d.measure, d.producer_group, d.topic, upper_of(number_class), count)
                for d in measures.distributions()
                for number_class, count in d.classes.items()
            ],
        ),
        Table(
            "deciders",
            "producer_group string, source string, count bigint",
            [(*key, count) for key, count in sorted(measures.deciders.items())],
        ),
    ]


def write_tables(spark: SparkSession, result: Result, share_min: float, folder: str) -> None:
    """Each as Parquet in a folder of its name. ConfigurationError where there is one already."""
    for table in tables(result, share_min):
        path = f"{folder.rstrip('/')}/{table.name}"
        frame = spark.createDataFrame(table.rows, table.schema).coalesce(1)
        try:
            frame.write.mode("errorifexists").parquet(path)
        except Exception as problem:
            first = str(problem).splitlines()[0]
            raise ConfigurationError(f"{path} cannot be written (--out): {first}") from problem


def printed(result: Result, share_min: float) -> str:
    """For a terminal: the summary, what is wrong, and what has not ended."""
    (summary,) = _dicts(tables(result, share_min)[0])
    lines = [
        f"verdict      {VERDICTS[result.verdict(share_min)]}",
        f"judged       {summary['judged']} of {summary['ended']} that have ended",
        f"violations   {_counted({k.value: summary[k.value] for k in Kind})}",
        f"not ended    {_counted(dict(result.whole.unfinished_counts))}",
        f"committed    {summary['committed']}",
        f"rolled back  {summary['rolled_back']}",
        f"parked       {summary['parked']}",
        f"conflicts    {_counted(_by_kind(result))}",
        f"read         {summary['records']} records in {result.took_s:.1f} s",
    ]
    lines += [
        f"{v.kind.value}: {shown(v.transaction_id)} of {shown(v.producer_group)}: "
        f"{shown(v.detail)}{_at(v.where)}"
        for v in result.whole.violations[:100]
    ]
    lines += [
        f"not judged: {count}: {SENTENCES[why]}" for why, count in result.whole.unjudged.items()
    ]
    return "\n".join(lines)


def _dicts(table: Table) -> Iterator[dict[str, Any]]:
    for row in table.rows:
        yield dict(zip(table.columns, row, strict=True))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in counts.items() if n) or "none"


def _at(where: tuple[Where, ...]) -> str:
    places = [f"{w.topic}-{w.partition}@{w.log_offset}" for w in where[:4]]
    return f" ({' '.join(places)})" if places else ""


def _by_kind(result: Result) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (_, kind), count in result.conflict_counts.items():
        found[kind] += count
    return dict(found)


def _summary(result: Result, share_min: float) -> Row:
    whole, account = result.whole, result.account
    return (
        result.verdict(share_min).value,
        whole.is_clean,
        whole.is_complete,
        whole.transactions,
        whole.ended,
        *_ended(whole),
        *(whole.violation_counts[kind] for kind in Kind),
        account.contrary_count,
        account.reused_count,
        whole.forwards_judged,
        account.compared,
        sum(place.records for place in account.places),
        result.looks,
        round(result.took_s, 2),
    )


def _ended(findings: Any) -> tuple[int, ...]:
    endings = findings.endings
    return (
        findings.judged,
        endings["committed"],
        endings["rolled_back"],
        endings["parked"],
        sum(findings.unfinished_counts.values()),
    )


def _groups(result: Result) -> Iterator[Row]:
    for group, findings in sorted(result.findings.items()):
        conflicts = sum(n for (g, _), n in result.conflict_counts.items() if g == group)
        yield (
            group,
            findings.transactions,
            findings.ended,
            *_ended(findings),
            *(findings.violation_counts[kind] for kind in Kind),
            conflicts,
        )


def _topics(result: Result) -> Iterator[Row]:
    account, layout = result.account, result.account.layout
    roles = {layout.half_topic: "half", layout.op_topic: "op", layout.parked_topic: "parked"}
    told: Counter[str] = Counter()
    for violation in result.whole.violations:
        told.update({where.topic for where in violation.where})
    for topic in [*roles, *sorted(layout.targets)]:
        places = account.of_topic(topic)
        yield (
            topic,
            roles.get(topic, "target"),
            len(places),
            sum(place.records for place in places),
            sum(place.ours for place in places),
            account.garbage[topic],
            any(place.is_trimmed for place in places),
            any(place.is_open for place in places),
            told[topic],
        )


def _violations(result: Result) -> Iterator[Row]:
    for one in result.whole.violations:
        where = [(w.topic, w.partition, w.log_offset) for w in one.where]
        identity = one.producer_group, one.transaction_id
        yield one.kind.value, *identity, list(one.indexes), where, one.detail


def _unfinished(result: Result) -> Iterator[Row]:
    for one in result.whole.unfinished:
        yield (
            one.state,
            one.producer_group,
            one.transaction_id,
            one.message_count,
            one.stored_ms,
            one.reason,
            one.source,
            *(one.where.topic, one.where.partition, one.where.log_offset),
        )


def _not_judged(result: Result) -> Iterator[Row]:
    whole = result.whole
    for why, count in sorted(whole.unjudged.items()):
        group, transaction_id = next(iter(whole.examples[why]), (None, None))
        yield why.value, count, SENTENCES[why], group, transaction_id
