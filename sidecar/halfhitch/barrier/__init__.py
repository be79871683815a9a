"""The barrier: a small table in the application's own database that answers check-backs.

Inside the local transaction `record` notes the transaction id. A check reads the note: it is there,
COMMIT. It is not there: a fence is committed in its place first, and only then the answer is
ROLLBACK; a local transaction that still runs cannot commit after that.

    barrier = Barrier(engine, "orders")
    with TransactionProducer("orders", check=barrier.check) as producer:
        with barrier.transaction(producer) as (tx, session):
            tx.send("order-events", event)
            session.add(order)

It imports the standard library, `halfhitch.errors` and the client's values only; SQLAlchemy is
needed for `Barrier` and `AsyncBarrier`, not for `DbapiBarrier`.

    errors, table       what programs see; the table's form and its statements
    rules               what may be answered when: no I/O
    guards, sql_guards  what a database connection, a session, an engine must be like
    running             a block's own id is recorded by it alone
    one_transaction     a block that is not one transaction is found out
    sql_recorded        and so is a commit that would not commit the record
    plain_recorded      what is known of it on a plain connection
    sql_home            after a fork the parent's connections are left alone
    sql_same_database   the record is where checks look for it
    deadline            a check ends in time, whatever becomes of the database
    ends, block         a local transaction and its messages end together
    statement           a block begins and ends with the program's `with`, whatever interrupts it
    plain_work          what it does with a plain connection
    sql_rows            the table on SQLAlchemy's connections
    sql, sql_aio, dbapi the shells; what is made of another module says so in its first line
"""

from typing import TYPE_CHECKING, Any

from halfhitch import extras
from halfhitch.barrier.errors import (
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
)
from halfhitch.barrier.table import DEFAULT_TABLE, ddl

if TYPE_CHECKING:
    from halfhitch.barrier.dbapi import DbapiBarrier
    from halfhitch.barrier.sql import Barrier
    from halfhitch.barrier.sql_aio import AsyncBarrier

__all__ = [
    "DEFAULT_TABLE",
    "AsyncBarrier",
    "Barrier",
    "DbapiBarrier",
    "LocalOutcomeUnknown",
    "TransactionFenced",
    "TransactionRecordedTwice",
    "ddl",
]

_HOME = {"AsyncBarrier": "sql_aio", "Barrier": "sql", "DbapiBarrier": "dbapi"}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'halfhitch.barrier' has no attribute {name!r}")
    from importlib import import_module

    try:
        found = getattr(import_module(f"halfhitch.barrier.{home}"), name)
    except ModuleNotFoundError as error:
        missing = extras.missing(f"halfhitch.barrier.{name}", error)
        if missing is None:
            raise
        missing.add_note("Without it, DbapiBarrier works with a plain database driver.")
        raise missing from error
    globals()[name] = found
    return found
