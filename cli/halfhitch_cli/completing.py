"""Values for the shell's completion: groups, ids and topics, as the sidecar and Kafka know them.

Invariants: whatever goes wrong, nothing is offered and nothing is printed, for a person is in the
middle of a line; nobody waits longer than two seconds.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from halfhitch.config import SETTINGS, Purpose, Settings, load

_WAIT_S = 2.0
_COUNT_MAX = 1_000


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Producer groups that are connected or have something undecided."""

    def ask(settings: Settings) -> Sequence[str]:
        _, answer = _door(settings).get("/v1/producers", wait_s=_WAIT_S)
        return [group["producer_group"] for group in answer["groups"]]

    return _offered(ctx, incomplete, ask)


def undecided(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of undecided transactions, those of the group that was given."""

    def ask(settings: Settings) -> Sequence[str]:
        query = f"/v1/names?limit={_COUNT_MAX}"
        _, answer = _door(settings).get(query, wait_s=_WAIT_S)
        wanted = ctx.params.get("group")
        names: Mapping[str, list[str]] = answer["names"]
        return [one for group, ids in names.items() if wanted in (None, group) for one in ids]

    return _offered(ctx, incomplete, ask)


def parked(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of parked ones."""

    def ask(settings: Settings) -> Sequence[str]:
        _, answer = _door(settings).get(f"/v1/parked?limit={_COUNT_MAX}", wait_s=_WAIT_S)
        wanted = ctx.params.get("group")
        return [
            row["transaction_id"]
            for row in answer["transactions"]
            if wanted in (None, row["producer_group"])
        ]

    return _offered(ctx, incomplete, ask)


def ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of `halfhitch parked` those that are parked, else the undecided."""
    is_parked = " parked" in f" {ctx.command_path}"
    return (parked if is_parked else undecided)(ctx, incomplete)


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of Kafka, without those that belong to Half Hitch and to Kafka itself."""

    def ask(settings: Settings) -> Sequence[str]:
        from confluent_kafka.admin import AdminClient

        from halfhitch.wire.topics import InternalTopics

        bootstrap, prefix = settings.kafka.bootstrap, settings.topics.prefix
        if not bootstrap:
            _, status = _door(settings).get("/v1/status", wait_s=_WAIT_S)
            bootstrap, prefix = status["info"]["kafka_bootstrap"], status["info"]["topic_prefix"]
        config: dict[str, Any] = {
            **settings.kafka.options.for_client("admin"),
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        client = AdminClient(config)
        ours = InternalTopics(prefix).all
        found = client.list_topics(timeout=_WAIT_S).topics
        return [name for name in found if name not in ours and not name.startswith("__")]

    return _offered(ctx, incomplete, ask)


def _offered(
    ctx: typer.Context, incomplete: str, ask: Callable[[Settings], Sequence[str]]
) -> list[str]:
    try:
        found = ask(_settings(ctx))
    except Exception:  # noqa: BLE001 - see the head: a person is in the middle of a line
        return []
    # The shell would split or run what is not plain.
    plain = {
        name for name in found if name.isprintable() and not set(name) & set(" \t'\"`$\\;&|<>()")
    }
    return sorted(name for name in plain if name.startswith(incomplete))


def _settings(ctx: typer.Context) -> Settings:
    from halfhitch_cli import contexts

    given: dict[str, Any] = dict(ctx.params)
    flags = {
        setting.key: value
        for setting in SETTINGS
        if (value := given.get("setting_" + setting.key.replace(".", "_"))) not in (None, [])
    }
    flags, path = contexts.apply(
        flags, given.get("config"), given.get("server"), given.get("profile"), os.environ
    )
    return load(flags, environ=os.environ, config_path=path, purpose=Purpose.CLIENT)


def _door(settings: Settings) -> Any:
    from halfhitch_cli.client import AdminClient

    return AdminClient.of(settings)
