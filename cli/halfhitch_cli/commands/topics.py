"""halfhitch topics: create the internal topics, look at them, pass over a forged record."""

import sys
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from halfhitch.adapters.kafka import audit_topic, topics, topology
from halfhitch.adapters.kafka.half_fetching import HalfFetcher
from halfhitch.adapters.kafka.skip_orders import SkipOrders
from halfhitch.adapters.watchdog import resting
from halfhitch.config import Purpose
from halfhitch.errors import RequestError
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from halfhitch.wire.story import SKIPPED
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli import bulk, findings
from halfhitch_cli.app import OK, UNHEALTHY
from halfhitch_cli.client import AdminClient
from halfhitch_cli.commands import trace
from halfhitch_cli.kafka import KafkaAdmin, audit_options
from halfhitch_cli.lazy import branch
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table, emit, say

_SETTINGS = ("kafka", "topics", "audit", "messages.bytes_max")


class Log(StrEnum):
    """What lies beside each other in one half partition."""

    HALF = "half"
    OP = "op"


def init(
    given: Given,
    output: Output = OutputForm.TABLE,
    repair: Annotated[
        bool, typer.Option("--repair", help="Also correct wrong settings of existing topics.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="Take half and op topic for what they are now, although they were created anew "
            "or have another number of partitions. No sidecar may be running.",
        ),
    ] = False,
) -> int:
    """Create the half, op and parked topics with the settings that the promises rest on.

    And the audit topic, which tells what became of transactions (audit.enabled).

    Topics that exist are left alone (but see --repair). Their number of partitions cannot be
    changed while anything is pending: asked for another one, this says how to go about it.
    """
    settings = given.load(Purpose.TOOL)
    names, audit = InternalTopics(settings.topics.prefix), audit_options(settings)
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        kafka.reach()
        repaired: tuple[str, ...] = ()
        if repair:
            repaired = topics.repair(
                kafka.client, names, message_bytes_max=settings.messages.bytes_max
            )
            if audit is not None:
                repaired += audit_topic.repair_audit(kafka.client, names, audit)
        ensured = topics.ensure(
            kafka.client,
            names,
            partition_count=settings.topics.partitions,
            replication_factor=settings.topics.replication_factor,
            message_bytes_max=settings.messages.bytes_max,
        )
        created = ensured.created
        if audit is not None and audit_topic.ensure_audit(
            kafka.client, names, audit, half_count=ensured.partition_count
        ):
            created = (*created, names.audit)
        if accept:
            topology.accept(kafka.client, kafka.stored_offsets(names.owner_group), names)
    shown = names.all if audit is None else names.reserved
    data = {
        "topics": list(shown),
        "created": list(created),
        "repaired": list(repaired),
        "partition_count": ensured.partition_count,
        "accepted": accept,
    }
    rows = [[name, "created" if name in created else "was there"] for name in shown]
    rows += [[change, "repaired"] for change in repaired]
    emit(output, data, [Table(columns=("Topic", ""), rows=rows, styles={"created": "green"})])
    return OK


def verify(given: Given, output: Output = OutputForm.TABLE) -> int:
    """Look whether the internal topics are as they must be. Exit code 3 when they are not."""
    settings = given.load(Purpose.TOOL)
    names, audit = InternalTopics(settings.topics.prefix), audit_options(settings)
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        kafka.reach()
        found = topics.verify(kafka.client, names, message_bytes_max=settings.messages.bytes_max)
        if audit is not None:
            found += audit_topic.verify_audit(kafka.client, names, audit)
    findings.show(output, found)
    return OK if findings.is_healthy(found) else UNHEALTHY


def skip(
    given: Given,
    log: Annotated[Log, typer.Argument(help="Which log the record lies in.")],
    partition: Annotated[int, typer.Argument(min=0, help="Half partition.")],
    offset: Annotated[int, typer.Argument(min=0, help="As the sidecar's log names it.")],
    reason: bulk.Reason = "",
    operator: bulk.Operator = None,
    yes: bulk.Yes = False,
) -> int:
    """Let owners pass over one record that says it is of a newer release, and stops them.

    Only if no newer release has ever run on these topics: then somebody has forged it. What a
    real one says would be lost. Restart the sidecars afterwards: they have left their group.
    """
    by = operator or bulk.operator_here()
    bulk.check_texts(reason, by, needs_reason=True)
    settings = given.load(Purpose.TOOL)
    names = InternalTopics(settings.topics.prefix)
    topic = names.half if log is Log.HALF else names.op
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        kafka.reach()
        what = _newer(kafka, names.skips_group, log, (topic, partition), offset)
        say(f"{topic}-{partition} {offset}: {what}. Whoever may write there can forge records.")
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("Nobody can be asked here: add --yes.")
            bulk.confirm("Let owners pass over it?")
        orders = SkipOrders(kafka.stored_offsets(names.skips_group))
        orders.add(topic, partition, offset, operator=by, reason=reason)
    say("Owners pass over it from now on. Restart each sidecar that has left its group.")
    return OK


def skipped(given: Given, output: Output = OutputForm.TABLE) -> int:
    """Show which records were passed over by order: where, when, by whom and why.

    As the sidecar knows it from the audit topic, which keeps it for audit.retention_h.
    """
    client = AdminClient.of(given.load(Purpose.CLIENT))
    answer = client.find("/v1/stories", {"id": ""})
    found = [
        {"log": event["outcome"], "offset": event["number"], "operator": event["by"]}
        | {"reason": event["reason"], "at_ms": event["at_ms"]}
        for story in answer["stories"]
        for event in story["events"]
        if event["what"] == SKIPPED
    ]
    names = ("log", "offset", "operator", "reason")
    rows = [[trace.moment(each["at_ms"]), *(str(each[name]) for name in names)] for each in found]
    columns = ("Time", "log", "offset", "by", "reason")
    emit(output, {"skipped": found}, [Table(columns, rows, right=frozenset(("offset",)))])
    if not found and output.is_for_people:
        say(f"No record was passed over that is known here. {trace.how_far(answer)}")
    return OK


def _newer(kafka: KafkaAdmin, group: str, log: Log, place: tuple[str, int], offset: int) -> str:
    """Why owners stop at it. Raises RequestError when they do not."""
    fetcher = HalfFetcher(lambda: kafka.reader(group), place[0])
    try:
        record = fetcher.fetch(place[1], [offset]).get(offset)
    finally:
        resting()
        if fetcher.consumer is not None:
            fetcher.consumer.close()
    if record is None:
        raise RequestError(
            f"{place[0]}-{place[1]} holds no record at offset {offset}: look at the sidecar's log, "
            "or at `halfhitch status`, for the one that stops it."
        )
    headers = record.headers()
    found = (
        half_wire.read_identity(offset, 0, 0, headers)
        if log is Log.HALF
        else op_wire.read(offset, 0, record.value(), headers, record.key())
    )
    if not isinstance(found, Garbage) or not found.is_newer:
        raise RequestError(
            f"The record at offset {offset} of {place[0]}-{place[1]} stops nobody: it is of this "
            "release, or no record of Half Hitch's at all. Nothing was done."
        )
    return found.reason


app = branch(
    "Create or verify the topics that belong to Half Hitch.",
    {
        "init": partial(settings_command, init, only=_SETTINGS),
        "verify": partial(settings_command, verify, only=_SETTINGS),
        "skip": partial(settings_command, skip, only=_SETTINGS),
        "skipped": partial(settings_command, skipped, only=("admin", "client", "auth")),
    },
)
