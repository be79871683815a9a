"""A server that forks its workers when everything is made: engine, table, producer.

As README says of it: the producer is made with `answers_checks=False`, and each worker starts its
own. The engine's pool holds a connection that both have inherited. It lives until its input ends.
"""

from __future__ import annotations

import os
import signal
import sys

from sqlalchemy import create_engine

from chaos.matrix.stores import Store
from halfhitch import TransactionProducer
from halfhitch.barrier import Barrier

_WORKERS = 2


def main(kind: str, place: str, group: str) -> None:
    """Until the input is closed."""
    barrier = Barrier(create_engine(Store(kind, place).url()), group)
    barrier.create()
    producer = TransactionProducer(group, check=barrier.check, answers_checks=False)
    workers = []
    for _ in range(_WORKERS):
        pid = os.fork()
        if pid == 0:
            producer.start_checks()
            sys.stdin.buffer.read()
            os._exit(0)
        workers.append(pid)
    sys.stdin.buffer.read()
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
