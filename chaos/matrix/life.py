"""One life of a program, in a process of its own: armed at one step, struck there, or let live.

`live` runs in a child that the lane has forked. It says what it did through a pipe, one line each:
`struck` before the stroke, `end <how>` behind the program's end. A recorded life writes its steps
instead. The process ends with `os._exit`: what a killed one does not do is not done here either.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import halfhitch
import halfhitch.barrier.sql_recorded
from chaos.matrix import hook, programs, wire
from chaos.matrix.points import Step, Steps
from chaos.matrix.stores import ORDERS, AsyncDatabase, Connections, Database, Store
from halfhitch.client import aio, aio_connections, sync, sync_connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from chaos.matrix.programs import Filling, Form, Program

#: What is done at a step.
KILL, PAUSE, FORK, ERROR = "kill", "pause", "fork", "error"
INTERRUPT, EXIT, CANCEL, CANCEL_SOON = "interrupt", "exit", "cancel", "cancel soon"
CUT_DATABASE, CUT_DOOR, AWAY = "cut database", "cut door", "door away"

#: A call's deadline where the sidecar goes away: that does not hold a life up for long.
_DEADLINE_S = 1.5
_TOO_LARGE_BYTES = 3_000_000
#: How long the relay holds the server's answer back after a stroke: it is to come first.
_HELD_S = 0.05


@dataclass(frozen=True)
class Stroke:
    """What is done, and where."""

    action: str
    step: Step


class ApplicationError(Exception):
    """A bug of the program's own."""


class Life:
    """One attempt of one program."""

    def __init__(
        self,
        form: Form,
        store: Store,
        filling: Filling,
        order_id: str,
        address: str,
        stroke: Stroke | None,
        told: int,
    ) -> None:
        self._form = form
        self._filling = filling
        self._order_id = order_id
        self._stroke = stroke
        self._told = told
        self._program: Program = programs.program(form, filling)
        self._steps = Steps(self._program.first_line, self._reached)
        self.recorded: list[Step] = []
        self._task: asyncio.Task[Any] | None = None
        self._is_struck = False
        self._store = store
        if stroke is not None and stroke.step.place in (wire.BEFORE, wire.IN):
            relay = wire.Relay(
                int(store.place),
                stroke.step.place,
                is_armed=lambda: self._steps.has_begun,
                strike=self._strike_on_wire,
            )
            self._store = store.through(relay.port)
        if stroke is not None and stroke.step.place == hook.HOOK:
            hook.install(self._in_hook)
        self._connections = Connections(self._store)
        os.environ["HALFHITCH_ADDRESS"] = address
        self._values = self._values_of(order_id)

    def run(self) -> None:
        """To its end, whatever that is."""
        if self._stroke is not None and self._stroke.action == AWAY:
            _shorten_deadlines()
        if self._filling.misuse == programs.ALWAYS_ROLLS_BACK:
            _always_roll_back()
        if self._filling.misuse == programs.UNWATCHED:
            halfhitch.barrier.sql_recorded.watch_commit = lambda *_: None
        sync.new_transaction_id = aio.new_transaction_id = lambda: self._order_id
        signal.signal(signal.SIGTERM, _exit_by_signal)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._told_end(self._form.is_async)

    def _told_end(self, is_async: bool) -> None:
        try:
            self._run_async() if is_async else self._run_sync()
        except BaseException as error:  # noqa: BLE001 - how it ended is what is told
            self._tell(f"end {type(error).__name__} {' '.join(str(error).split())[:120]}")
        else:
            self._tell("end -")

    def _run_sync(self) -> None:
        self._steps.watch()
        try:
            self._program.run(self._values)
        finally:
            self._steps.stop()

    def _run_async(self) -> None:
        async def main() -> None:
            self._task = asyncio.current_task()
            self._values["engine"] = self._connections.async_engine()
            self._steps.watch()
            try:
                await self._program.run(self._values)
            finally:
                self._steps.stop()

        asyncio.run(main())

    # -- what a program finds --------------------------------------------------------------------

    def _values_of(self, order_id: str) -> dict[str, Any]:
        from sqlalchemy.ext.asyncio import AsyncSession
        from sqlalchemy.orm import Session

        count = programs.message_count(self._form, self._filling)
        made, statement = self._connections, self._store.insert(order_id, count)
        values: dict[str, Any] = {
            "customer": b"customer-" + order_id[-1:].encode(),
            "order": _order_class()(id=order_id, messages=count),
            "order_json": programs.order_value(order_id, 0),
            "points_json": programs.order_value(order_id, 1),
            "more_json": programs.order_value(order_id, 2),
            "too_large": b"x" * _TOO_LARGE_BYTES,
            "insert_order": statement,
            "connect": made.connect,
            "Session": Session,
            "AsyncSession": AsyncSession,
        }
        if self._form.is_async:
            values["database"] = AsyncDatabase(made.connect_async, lambda: statement)
            values["check"] = _async_check(self._store)
            values["paid"] = functools.partial(asyncio.to_thread, self._store.has)
        else:
            values["engine"] = made.engine()
            values["database"] = Database(made.connect, lambda: statement)
            values["check"] = programs.readme_check(self._store.has)
            values["paid"] = self._store.has
        return values

    # -- striking --------------------------------------------------------------------------------

    def _reached(self, step: Step) -> None:
        stroke = self._stroke
        if stroke is None:
            self.recorded.append(step)
        elif step == stroke.step and not self._is_struck:
            self._is_struck = True
            self._tell("struck")
            self._strike(stroke.action)

    def _strike(self, action: str) -> None:
        if action == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == PAUSE:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action == ERROR:
            raise ApplicationError("of the program's own")
        elif action == EXIT:
            raise SystemExit(143)
        elif action == INTERRUPT:
            if self._form.is_async:
                os.kill(os.getpid(), signal.SIGINT)  # asyncio makes a cancellation of it
            else:
                raise KeyboardInterrupt
        elif action == CANCEL:
            assert self._task is not None
            self._task.cancel()
        elif action == CANCEL_SOON:
            assert self._task is not None
            asyncio.get_running_loop().call_soon(self._task.cancel)
        elif action == FORK:
            self._fork()
        elif action == CUT_DATABASE:
            self._connections.cut()
        else:
            self._cut_door()
            if action == AWAY:
                _take_door_away()

    def _in_hook(self, session: Session) -> None:
        stroke = self._stroke
        assert stroke is not None
        if self._is_struck or not self._steps.has_begun:
            return
        self._is_struck = True
        self._tell("struck")
        if stroke.action in hook.LOSES:
            hook.lose(stroke.action, session, self._store, self._order_id)
        else:
            self._strike(stroke.action)

    def _strike_on_wire(self) -> bool:
        """In the relay's thread. True: the connection is to be cut."""
        assert self._stroke is not None
        self._is_struck = True
        self._tell("struck")
        action = self._stroke.action
        if action == CUT_DATABASE:
            return True
        if action == INTERRUPT:
            os.kill(os.getpid(), signal.SIGINT)
        elif action == EXIT:
            os.kill(os.getpid(), signal.SIGTERM)
        elif action in (CANCEL, CANCEL_SOON):
            assert self._task is not None
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        else:
            self._strike(action)
        time.sleep(_HELD_S)
        return False

    def _cut_door(self) -> None:
        producer = self._values.get("producer")
        pool = None if producer is None else producer._pool
        for connection in list(pool._all) if pool is not None else ():
            with contextlib.suppress(OSError):  # it has gone already
                if self._form.is_async:
                    connection.abort()
                else:
                    connection._socket.shutdown(socket.SHUT_RDWR)

    def _fork(self) -> None:
        """The child makes an order of its own with what it has inherited, and ends."""
        if os.fork():
            return  # not waited for here: it may wait for what this transaction holds
        self._steps.stop()
        signal.alarm(30)  # a child that hangs is ended, and its end is missed
        own = self._order_id + "-child"
        sync.new_transaction_id = lambda: own
        values = self._values  # which a listener's methods know, too
        values.update(_without(self._values_of(own), "engine", "check"))
        # As SQLAlchemy asks of who forks; the barrier's own connections are the barrier's business.
        values["engine"].dispose(close=False)
        try:
            self._program.run_block(values)
        except BaseException as error:  # noqa: BLE001 - told
            self._tell(f"child-end {type(error).__name__} {' '.join(str(error).split())[:120]}")
        else:
            self._tell("child-end -")
        os._exit(0)

    def _tell(self, line: str) -> None:
        os.write(self._told, line.encode() + b"\n")


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


@functools.cache
def _order_class() -> Any:
    from sqlalchemy import Column, Integer, String
    from sqlalchemy.orm import DeclarativeBase

    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = ORDERS
        id = Column(String(64), primary_key=True)
        messages = Column(Integer, nullable=False)

    return Order


def _async_check(store: Store) -> Callable[[Any], Any]:
    ask = programs.readme_check(store.has)

    async def check(asked: Any) -> Any:
        return await asyncio.to_thread(ask, asked)

    return check


def _exit_by_signal(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def _shorten_deadlines() -> None:
    for name in ("TransactionProducer", "AsyncTransactionProducer"):
        made = functools.partial(getattr(halfhitch, name), deadline_s=_DEADLINE_S)
        setattr(halfhitch, name, made)


def _take_door_away() -> None:
    """No new connection to the sidecar from now on."""

    def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError("the sidecar is away")

    async def refuse_async(*_: Any) -> Any:
        from halfhitch.client.retries import TransportFailure

        raise TransportFailure("the sidecar is away", sent=False)

    sync_connections.connect = refuse
    aio_connections.ConnectionPool._open = refuse_async  # type: ignore[method-assign]


def _always_roll_back() -> None:
    """The client's block as it once was: leaving it by anything but its end rolls back."""

    def leave(self: Any, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            self.commit()
        else:
            self.rollback()

    async def leave_async(self: Any, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            await self.commit()
        else:
            await self.rollback()

    sync.Transaction.__exit__ = leave  # type: ignore[method-assign]
    aio.AsyncTransaction.__aexit__ = leave_async  # type: ignore[method-assign]


def live(*arguments: Any) -> None:
    """For the forked child: never returns."""
    status = 1
    try:
        made = Life(*arguments)
        made.run()
        for step in made.recorded:
            made._tell(f"step {step.visit} {step.place}")
        status = 0
    except BaseException:  # noqa: BLE001 - nobody else would say it
        traceback.print_exc()
    finally:
        os._exit(status)
