"""halfhitch topics: create the internal topics, or look whether they are as they must be."""

from typing import Annotated

import typer

from halfhitch.adapters.kafka import topics, topology
from halfhitch.config import Purpose
from halfhitch_cli import findings
from halfhitch_cli.app import OK, UNHEALTHY
from halfhitch_cli.kafka import KafkaAdmin
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm, Table, emit

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Create or verify the topics that belong to Half Hitch.",
)

_SETTINGS = ("kafka", "topics", "messages.bytes_max")


def init(
    given: Given,
    output: Output = OutputForm.TABLE,
    repair: Annotated[
        bool, typer.Option("--repair", help="Also set wrong settings of existing topics right.")
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

    Topics that exist are left alone (but see --repair). Their number of partitions cannot be
    changed while anything is pending: asked for another one, this says how to go about it.
    """
    settings = given.load(Purpose.TOOL)
    names = topics.InternalTopics(settings.topics.prefix)
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        kafka.reach()
        repaired: tuple[str, ...] = ()
        if repair:
            repaired = topics.repair(
                kafka.client, names, message_bytes_max=settings.messages.bytes_max
            )
        ensured = topics.ensure(
            kafka.client,
            names,
            partition_count=settings.topics.partitions,
            replication_factor=settings.topics.replication_factor,
            message_bytes_max=settings.messages.bytes_max,
        )
        if accept:
            topology.accept(kafka.client, kafka.stored_offsets(names.owner_group), names)
    data = {
        "topics": list(names.all),
        "created": list(ensured.created),
        "repaired": list(repaired),
        "partition_count": ensured.partition_count,
        "accepted": accept,
    }
    rows = [[name, "created" if name in ensured.created else "was there"] for name in names.all] + [
        [change, "repaired"] for change in repaired
    ]
    emit(output, data, [Table(columns=("Topic", ""), rows=rows, styles={"created": "green"})])
    return OK


def verify(given: Given, output: Output = OutputForm.TABLE) -> int:
    """Look whether the internal topics are as they must be. Exit code 3 when they are not."""
    settings = given.load(Purpose.TOOL)
    names = topics.InternalTopics(settings.topics.prefix)
    with KafkaAdmin(settings, wait_s=settings.kafka.start_wait_s) as kafka:
        kafka.reach()
        found = topics.verify(kafka.client, names, message_bytes_max=settings.messages.bytes_max)
    findings.show(output, found)
    return OK if findings.is_healthy(found) else UNHEALTHY


app.command(cls=PlainCommand)(settings_command(init, only=_SETTINGS))
app.command(cls=PlainCommand)(settings_command(verify, only=_SETTINGS))
