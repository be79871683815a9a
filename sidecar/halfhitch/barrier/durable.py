"""What was read is answered only behind a durable write of one's own.

A committed row can be seen before it is safe. PostgreSQL shows it although a synchronous standby
lacks it, when the wait for that one was cut: by a cancellation, by Ctrl-C, by the end of the
server's process. InnoDB without a binary log shows it while its log is still being written. If the
database fails then, the row is gone, and what was answered by it was wrong.

What is committed later is written to the log later, and a commit returns when all of the log before
it is safe, too. So a check that has found a row reads it again, in a transaction that writes a row
and deletes it, and believes it when that has committed. Nobody ever sees the row, nor does a purge:
it is not there when that transaction ends.

SQLite needs none: with `synchronous=FULL` nobody sees what was not synced, for the file is locked
until then, and of the write-ahead log readers are shown no more than was. With less, in WAL mode,
a commit is no more durable to its own program (docs/barrier.md).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from halfhitch.barrier import mysql, table
from halfhitch.barrier.rules import Undecidable
from halfhitch.client.calls import new_transaction_id
from halfhitch.errors import HalfHitchError

#: Run before all else in that transaction. At SERIALIZABLE it would collide with others' records.
_LEVEL: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
#: Whatever the connection is set to; of a server without standbys it waits for the disk.
_WAITS: Final = "SET LOCAL synchronous_commit = on"
#: A connection in autocommit mode would leave the row there if it was cut off behind the INSERT.
_BEGIN: Final = "START TRANSACTION"


def is_needed(dialect: str) -> bool:
    """Whether what is seen may be lost."""
    return dialect != "sqlite"


class Behind:
    """Makes sure of what was read, on a connection in no transaction.

    begin: what is run first in each transaction of a check; run: runs a statement and tells how
    many rows it changed.
    """

    def __init__(
        self,
        dialect: str,
        name: str,
        group: str,
        begin: Callable[[], None],
        run: Callable[[str, table.Values], int],
    ) -> None:
        self._dialect = dialect
        self._name = name
        self._group = group
        self._begin = begin
        self._run = run

    def sure(self, read: Callable[[], str | None], commit: Callable[[], object]) -> str | None:
        """What is read now. Raises Undecidable where it could not be made sure of."""
        try:
            if self._dialect == "postgresql":
                self._run(_LEVEL, ())
            self._begin()
            if self._dialect == "postgresql":
                self._run(_WAITS, ())
            elif self._dialect in mysql.NAMES:
                self._run(_BEGIN, ())
            outcome = read()
            self._write()
            commit()
        except (HalfHitchError, Undecidable):
            self._undo()
            raise
        except Exception as error:
            self._undo()
            said = " ".join(str(error).split())[:200]
            raise self._unsure(
                f"could not be committed ({type(error).__name__}: {said})"
            ) from error
        return outcome

    def _undo(self) -> None:
        """Of a connection in autocommit mode nobody else would end what BEGIN began.

        What its next user writes would be in it, unseen, and gone when the connection is closed.
        """
        if self._dialect in mysql.NAMES:
            with suppress(Exception):  # of a connection that is lost the server ends it
                self._run("ROLLBACK", ())

    def _write(self) -> None:
        values = table.marker_values(self._dialect, self._group, new_transaction_id())
        self._run(table.insert(self._dialect, self._name, table.FENCED), values)
        if self._run(table.delete_one(self._dialect, self._name), values) == 0:
            raise self._unsure("was taken away, by a trigger say")

    def _unsure(self, why: str) -> Undecidable:
        return Undecidable(
            f"{self._name} has a row, and whether it is safe on disk and standby is not known: a"
            f" row of the check's own, written behind it and deleted, {why}. Checks take INSERT,"
            f" SELECT and DELETE on {self._name}, on the primary"
        )
