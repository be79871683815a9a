"""The commands of ledger scenarios, and what they print.

    prepare A [index=1] [copies=2]      commit A [covers=2]      rollback A,B     garbage half|op
    read half|op [count]     pass 61s     expire     turn [max=1]     settle
    plan [max=1]     step commits|is confirmed|is aborted     trim     crash     take over
    state A     visible     watermarks

After every command a naive account of both logs is compared with what happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.ledger_model import Judge
from harness.ledger_world import LedgerWorld, identity_of

from halfhitch.core.model import Resolution

if TYPE_CHECKING:
    from halfhitch.core.ledger import Step


class LedgerScenario:
    """One world, driven by lines of text."""

    def __init__(self, *, horizon_ms: int = 900_000, finished_max: int = 30_000) -> None:
        self.world = LedgerWorld(horizon_ms=horizon_ms, finished_max=finished_max)

    def execute(self, line: str) -> list[str]:
        """Run one command; unknown ones raise ValueError."""
        words = [word for word in line.split() if "=" not in word]
        options = {
            name: int(value)
            for name, value in (word.split("=") for word in line.split() if "=" in word)
        }
        for length in (3, 2, 1):
            method = getattr(self, "_".join(["do", *words[:length]]), None)
            if method is not None:
                result = method(*words[length:], **options)
                Judge(self.world).check_all()
                return result
        raise ValueError(f"unknown command: {line}")

    # -- the world outside ------------------------------------------------------------------------

    def do_memory(self, finished_max: str) -> list[str]:
        """How many finished ones are remembered; before anything else."""
        self.world = LedgerWorld(finished_max=int(finished_max))
        return []

    def do_prepare(self, names: str, index: int = 0, copies: int = 1) -> list[str]:
        return [
            f"half {self.world.prepare(identity_of(name), index, name.encode())}"
            for name in names.split(",")
            for _ in range(copies)
        ]

    def do_commit(self, names: str, covers: int = 1) -> list[str]:
        return self._decide(Resolution.COMMIT, names, covers)

    def do_rollback(self, names: str, covers: int = 1) -> list[str]:
        return self._decide(Resolution.ROLLBACK, names, covers)

    def _decide(self, resolution: Resolution, names: str, covers: int) -> list[str]:
        return [
            f"op {self.world.decide(identity_of(name), resolution, covers)}"
            for name in names.split(",")
        ]

    def do_garbage(self, log: str) -> list[str]:
        if log == "half":
            return [f"half {self.world.append_half(b'?', None)}"]
        return [f"op {self.world.append_op(b'17,x,', [('TAGS', b'd'), ('HALFHITCH', b'1[]')])}"]

    def do_pass(self, seconds: str) -> list[str]:
        self.world.pass_time(int(seconds.removesuffix("s")) * 1_000)
        return []

    # -- the owner --------------------------------------------------------------------------------

    def do_read_half(self, count: str | None = None) -> list[str]:
        self.world.read_half(None if count is None else int(count))
        return []

    def do_read_op(self, count: str | None = None) -> list[str]:
        self.world.read_op(None if count is None else int(count))
        return []

    def do_expire(self) -> list[str]:
        before = self.world.unknown_decision_count
        self.world.expire_early()
        return [f"{self.world.unknown_decision_count - before} unknown decisions"]

    def do_plan(self, max: int = 1_000) -> list[str]:  # noqa: A002 - the command's own word
        return self._show(self.world.plan(max))

    def do_turn(self, max: int = 1_000) -> list[str]:  # noqa: A002
        self.world.read_half()
        self.world.read_op()
        self.world.expire_early()
        shown = self._show(self.world.plan(max))
        if self.world.step is not None:
            self.world.commit()
            self.world.confirm()
        return shown

    def do_step_commits(self) -> list[str]:
        self.world.commit()
        return []

    def do_step_is_confirmed(self) -> list[str]:
        self.world.confirm()
        return []

    def do_step_is_aborted(self) -> list[str]:
        self.world.abort()
        return []

    def do_trim(self) -> list[str]:
        self.world.trim()
        return [f"half log from {self.world.half_log.start}, op log from {self.world.op_log.start}"]

    def do_crash(self) -> list[str]:
        self.world.crash()
        return []

    def do_take_over(self) -> list[str]:
        self.world.take_over()
        half, op = self.world.watermarks
        return [f"replayed from half {half}, op {op}"]

    def do_settle(self) -> list[str]:
        """Read and write until nothing is left; then everything must be as it should."""
        self.world.settle()
        Judge(self.world).check_settled()
        return []

    # -- questions --------------------------------------------------------------------------------

    def do_state(self, names: str) -> list[str]:
        return [
            f"{name} {self.world.ledger.standing(identity_of(name)).value}"
            for name in names.split(",")
        ]

    def do_visible(self) -> list[str]:
        return [
            f"{identity[1]} {','.join(str(index) for index, _ in messages)}"
            for identity, messages in self.world.forwarded
        ] or ["nothing"]

    def do_watermarks(self) -> list[str]:
        return [f"half {self.world.watermarks[0]} op {self.world.watermarks[1]}"]

    def _show(self, step: Step | None) -> list[str]:
        if step is None:
            return ["nothing to do"]
        lines = [f"forward {','.join(map(str, half_offsets))}" for half_offsets in step.forwards]
        for mark in step.done:
            ending = f"committed {mark.ending}" if mark.ending else "rolled back"
            halves = ",".join(map(str, mark.half_offsets)) or "no half"
            lines.append(f"done {mark.identity[1]} {ending}: {halves}")
        for conflict in step.conflicts:
            halves = ",".join(map(str, conflict.half_offsets))
            lost = f"half {halves}" if halves else f"op {conflict.losing_op_offset}"
            lines.append(f"conflict {conflict.identity[1]} {conflict.kind.value}: {lost}")
        return [*lines, f"watermarks half {step.half_watermark} op {step.op_watermark}"]
