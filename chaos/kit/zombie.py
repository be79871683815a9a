"""An owner that stands still at the worst moment: a step is planned, nothing of it written.

Usage: python -m chaos.kit.zombie BOOTSTRAP PREFIX fenced|unfenced

It stops itself (SIGSTOP) right before its first Kafka transaction with messages for targets, and
says ["wrote", outcome, reason] when it was let go on and has written. Entries of the audit topic
are no such messages: a rollback has them too. `own_transactional_ids` takes one of the two fences
away, so that the other one stands alone; `no_generation` takes the second.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer

from halfhitch.adapters.kafka import clients
from halfhitch.adapters.kafka.membership import GroupMembership
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from harness.engines import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Patch = Callable[[Any, str, Any], None]


def own_transactional_ids(patch: Patch, suffix: str) -> None:
    """Every process has ids of its own: whoever takes over fences nobody by them."""
    original = clients.owner_producer

    def owner_producer(common: Any, *, transactional_id: str, **more: Any) -> Any:
        return original(common, transactional_id=f"{transactional_id}-{suffix}", **more)

    patch(clients, "owner_producer", owner_producer)


def no_generation(patch: Patch, bootstrap: str, group: str) -> None:
    """The group's name alone, as clients sent it before there were generations to send."""
    stranger = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    bare = stranger.consumer_group_metadata()
    # The consumer belongs to the function: without it the metadata would outlive its client.
    patch(GroupMembership, "metadata", lambda *_, bare=bare, kept=stranger: bare)


def stops_before_it_writes(patch: Patch, topics: Collection[str]) -> None:
    """Once, in the worker's thread, with a message for one of `topics`: the whole process."""
    original = KafkaPartitionWriter.write
    stopped: list[bool] = []

    def write(self: Any, targets: Any, *more: Any) -> Any:
        if stopped or not any(target.topic in topics for target in targets):
            return original(self, targets, *more)
        stopped.append(True)
        # To this thread, which stops in the call. A signal to the process may be taken by another
        # thread, and this one went on meanwhile: what it produced was too old when it woke up.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        result = original(self, targets, *more)
        say("wrote", result.outcome.name, result.reason)
        return result

    patch(KafkaPartitionWriter, "write", write)


def say(*what: object) -> None:
    """One line, at once."""
    print(json.dumps(what), flush=True)


async def main(bootstrap: str, prefix: str, way: str) -> None:
    site = Site(bootstrap, prefix)
    own_transactional_ids(setattr, "zombie")
    if way == "unfenced":
        no_generation(setattr, bootstrap, site.names.owner_group)
    stops_before_it_writes(setattr, site.targets)
    async with site.engine():
        say("working")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
