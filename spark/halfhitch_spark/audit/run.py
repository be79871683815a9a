"""The job: plan, read and take, bring together, witness, judge; and look again at what seems wrong.

Owns `audit`. Tasks of Spark read partitions and give away pieces of facts (taking.py), which are
brought together by bucket of transactions; the pieces stay where Spark keeps what it shuffles, and
are gone over twice (judging.py). The driver holds what is not of one transaction: a bit for each
half that has ended, sixteen bytes for each keyed record of a compacted target, and what was found.
"""

import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses

from halfhitch.errors import KafkaUnavailable, TopologyError
from halfhitch.verify.account import Account, Place
from halfhitch.verify.bounds import Rules
from halfhitch.verify.gone import gone
from halfhitch.verify.judge import Witnessed
from halfhitch.verify.pieces import BUCKET_COUNT
from halfhitch.verify.report import Findings, Verdict
from halfhitch_spark.audit.cluster import Cluster
from halfhitch_spark.audit.judging import Case, Judged, judged, witnessed
from halfhitch_spark.audit.measures import Measures
from halfhitch_spark.audit.plan import Offsets, Plan, Wanted, make_plan
from halfhitch_spark.audit.taking import SEEN, Conflict, Seen, taken
from halfhitch_spark.audit.topics import why_unread

#: Of a task that judges: some 100 bytes each.
_RECORDS_PER_TASK: Final = 500_000
_MOMENT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Given:
    """What to audit. `options` are those of Spark's source (`kafka.security.protocol`, ...).

    `limit`: so many violations of each kind, and transactions that have not ended, are listed for
    each producer group; all are counted.
    """

    bootstrap: str
    wanted: Wanted
    rules: Rules = field(default_factory=Rules)
    group: str | None = None
    limit: int = 1_000
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Result:
    """What was found, by producer group, and the account it was found in."""

    plan: Plan
    account: Account
    findings: dict[str, Findings]
    groups: frozenset[str]
    measures: Measures
    conflicts: list[Conflict]
    conflict_counts: Counter[tuple[str, str]]
    looks: int = 1
    took_s: float = 0.0

    @property
    def whole(self) -> Findings:
        """Of all groups."""
        result = Findings(max((f.limit for f in self.findings.values()), default=0))
        for findings in self.findings.values():
            result.join(findings)
        result.pass_over_gone(self.account.gone_count)
        result.finish()
        return result

    def verdict(self, share_min: float) -> Verdict:
        """As verify's."""
        return self.whole.verdict(share_min)


def audit(
    spark: SparkSession, given: Given, *, tell: Callable[[str], None] = lambda _: None
) -> Result:
    """Read all, judge, and look again at what seems wrong.

    ConfigurationError, TopologyError and KafkaUnavailable say what is wrong in a sentence.
    """
    began_s = time.monotonic()
    with Cluster.opened(spark, given.bootstrap, given.options) as kafka, _sentences(given):
        plan = make_plan(kafka, given.wanted)
        tell(f"reading {plan.record_count:,} records at most")
        result = look(SparkPieces(spark, given, plan), kafka, given, plan)
        if not result.whole.is_clean:
            time.sleep(_MOMENT_S)
            again = make_plan(kafka, given.wanted)
            if again.ends != plan.ends or plan.hidden:
                tell("looking again at what seems wrong")
                only = {group: findings.found for group, findings in result.findings.items()}
                result = look(SparkPieces(spark, given, again), kafka, given, again, only)
                result.looks = 2
    result.took_s = time.monotonic() - began_s
    return result


class Pieces(Protocol):
    """What tasks have taken, by the task that judges it; Spark's, or played in a test."""

    def seen(self) -> list[Seen]:
        """What tasks tell the driver."""
        ...

    def each(self, judge: Callable[[Case, Any], Iterator[Any]], case: Case) -> list[Any]:
        """What comes of each task's pieces."""
        ...


def look(
    pieces: Pieces,
    kafka: Offsets,
    given: Given,
    plan: Plan,
    only: dict[str, set[int]] | None = None,
) -> Result:
    """Judge what was taken. `only`: what an earlier look has found, by group."""
    seen = pieces.seen()
    account = _whole(plan, seen, kafka.starts([one.place for one in seen]))
    account.gone_count = _gone(account, plan, kafka)
    named = [topic for topic in account.topics if topic not in plan.layout.targets]
    allow = given.wanted.allow
    account.unread = why_unread(plan.names, plan.layout, named, plan.there, allow)
    case = Case(account, given.rules, given.limit, given.group, only=only)
    known = Witnessed()
    for part in pieces.each(witnessed, case):
        known.join(part)
    found = Judged()
    for one in pieces.each(judged, replace(case, seen=known)):
        found.join(one)
    for findings in found.findings.values():
        findings.finish()
    for one in seen:
        found.measures.join(_of_group(one.measures, given.group))
    counts: Counter[tuple[str, str]] = sum((one.conflict_counts for one in seen), Counter())
    return Result(
        plan,
        account,
        found.findings,
        frozenset().union(*(one.groups for one in seen)),
        found.measures,
        [c for one in seen for c in one.conflicts if given.group in (None, c.producer_group)],
        Counter({key: n for key, n in counts.items() if given.group in (None, key[0])}),
    )


# -- on Spark ------------------------------------------------------------------------------------


class SparkPieces:
    """Read once, and gone over as often as it is asked: Spark keeps what it has shuffled."""

    def __init__(self, spark: SparkSession, given: Given, plan: Plan) -> None:
        self._context = spark.sparkContext
        tasks = math.ceil(plan.record_count / _RECORDS_PER_TASK)
        self._tasks = min(max(self._context.defaultParallelism, tasks), BUCKET_COUNT)
        known = self._context.broadcast(plan)
        rows = _rows(spark, given, plan).rdd
        taken_ones = rows.mapPartitions(lambda part: taken(known.value, part))
        self._found = taken_ones.partitionBy(self._tasks + 1, partial(_task_of, self._tasks))

    def seen(self) -> list[Seen]:
        """In a partition of its own, behind the others."""
        return [found for _, found in self._run(list, [self._tasks])]

    def each(self, judge: Callable[[Case, Any], Iterator[Any]], case: Case) -> list[Any]:
        """Of all other partitions."""
        known = self._context.broadcast(case)
        return self._run(lambda pieces: judge(known.value, pieces), list(range(self._tasks)))

    def _run(self, each: Callable[[Any], Any], partitions: list[int]) -> list[Any]:
        return list(self._context.runJob(self._found, each, partitions))


def _rows(spark: SparkSession, given: Given, plan: Plan) -> DataFrame:
    """Of all partitions between their ends; a task for each partition."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(plan.ends):
        by_topic.setdefault(topic, []).append(partition)

    def offsets(of: Callable[[Place], int]) -> str:
        return json.dumps(
            {topic: {str(p): of((topic, p)) for p in found} for topic, found in by_topic.items()}
        )

    source = spark.read.format("kafka").options(
        **{
            **given.options,
            "kafka.bootstrap.servers": given.bootstrap,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            # What is trimmed while it is read is accounted for: see _whole.
            "failOnDataLoss": "false",
            "assign": json.dumps(by_topic),
            "startingOffsets": offsets(lambda place: plan.starts[place][0]),
            "endingOffsets": offsets(lambda place: plan.ends[place]),
        }
    )
    return source.load().select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("time_ms"),
        F.col("timestampType").alias("time_type"),
        "key",
        "value",
        F.transform("headers", lambda header: header["key"]).alias("names"),
        F.transform("headers", lambda header: header["value"]).alias("contents"),
    )


def _task_of(tasks: int, bucket: int) -> int:
    return tasks if bucket == SEEN else bucket % tasks


@contextlib.contextmanager
def _sentences(given: Given) -> Iterator[None]:
    """The errors of a job: Spark tells of a task's as a part of its own, as text."""
    try:
        yield
    except Py4JJavaError as problem:
        text = str(problem.java_exception)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        for line in lines:
            _, sign, sentence = line.partition("TopologyError: ")
            if sign:
                raise TopologyError(sentence.replace("`halfhitch verify`", "audit")) from problem
        raise KafkaUnavailable(
            f"the job on Spark has failed: {lines[0] if lines else text} (Kafka at "
            f"{given.bootstrap}); its log says more"
        ) from problem


# -- on the driver -------------------------------------------------------------------------------


def _whole(plan: Plan, seen: list[Seen], starts: Mapping[Place, int]) -> Account:
    """All accounts in one, and what was deleted while it was read."""
    whole = plan.account()
    for one in seen:
        if one.account is None:
            continue
        whole.join(one.account)
        start, planned = starts[one.place], plan.starts[one.place][0]
        if start <= planned:
            continue
        place = whole.place(one.place)
        place.is_trimmed = True
        place.first_log_offset = min(start, one.first_read)
        for before, behind in one.gaps:
            if before < start:  # there were records in this gap, perhaps
                place.trimmed()
                place.first_log_offset = behind
                whole.op_gap |= one.place[0] == plan.layout.op_topic
    whole.cut()
    return whole


def _gone(account: Account, plan: Plan, kafka: Offsets) -> int:
    """Watermarks are asked for last: owners delete below them."""
    half, group = plan.layout.half_topic, plan.names.owner_group
    places = [place for place in plan.starts if place[0] == half]
    ends, starts = kafka.ends(places), kafka.starts(places)
    stored = kafka.watermarks(group, half)
    # One that is not stored is 0; none at all may be a right that is missing.
    watermarks = {partition: stored.get(partition, 0) for _, partition in places} if stored else {}
    return gone(account, starts, ends, watermarks)


def _of_group(measures: Measures, group: str | None) -> Measures:
    if group is None:
        return measures
    counts = {key: count for key, count in measures.counts.items() if key[1] == group}
    deciders = {key: count for key, count in measures.deciders.items() if key[0] == group}
    return Measures(Counter(counts), Counter(deciders))
