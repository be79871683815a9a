"""Child processes that take orders: one JSON object a line on stdin, one answer on stdout.

A child ends when its stdin does, so none outlives the director, however that ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, Self

from harness.places import python_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

Order = dict[str, Any]

_STOP_S = 20.0


class BenchmarkError(Exception):
    """The benchmark cannot go on; the text says why and where to look."""


class Child:
    """A module of this package running in a process of its own."""

    def __init__(self, module: str, arguments: Order, *, log: Path, **more: str) -> None:
        """`more` is what else its environment is to have."""
        self._name = module
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"bench.{module}", json.dumps(arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=plain_environment(**more),
                text=True,
                bufsize=1,
                # Ctrl-C reaches the director alone, which ends the others in order.
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def order(self, order: Order) -> Order:
        """Give an order and wait for its answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(order) + "\n")
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BenchmarkError(f"{self._name} has died; see {self._log}\n{_tail(self._log)}")
        answer: Order = json.loads(line)
        if "error" in answer:
            raise BenchmarkError(f"{self._name} failed: {answer['error']}")
        return answer


def plain_environment(**more: str) -> dict[str, str]:
    """Ours without settings that are meant for another sidecar, and with this package in reach."""
    keep = ("HALFHITCH_CACHE_DIR",)
    first = more.pop("PYTHONPATH", "")  # before all others
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_") or k in keep}
    return {**kept, "PYTHONPATH": python_path(first), **more}


def arguments() -> Order:
    """In the child: what `Child` was given."""
    given: Order = json.loads(sys.argv[1])
    return given


async def obey(carry_out: Callable[[Order], Awaitable[Order]]) -> None:
    """In the child: carry out orders until there are no more."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            answer = await carry_out(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it is, the director has to know
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def run(main: Callable[[], Any]) -> None:
    """In the child: the loop the sidecar would use, and its settings of the collector."""
    import gc

    gc.set_threshold(50_000, 20, 100)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _tail(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-20:])
