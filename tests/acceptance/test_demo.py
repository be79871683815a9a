"""The demo as a user runs it: real servers, killed processes; the books must balance, all decided.

The demo stays up at its end, so that the command it prints is run as it was printed.
"""

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_PLAY_S = 400.0
_END_S = 60.0


class _Demo:
    """One run, with what it says in files: nobody has to read along."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._said = folder / "stdout"
        self._told = folder / "stderr"
        with self._said.open("wb") as out, self._told.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "halfhitch_cli", "demo", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    def all_said(self) -> str:
        return self.said + self._told.read_text()

    def await_end_of_play(self) -> None:
        """Until it has said all and stays, or has ended."""
        self._await(lambda: "until Ctrl-C" in self._told.read_text(), _PLAY_S)
        assert self.process.poll() is None, self.all_said()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self._await(lambda: self.process.poll() is not None, _END_S)
        return self.process.wait()

    def _await(self, is_so: Callable[[], bool], within_s: float) -> None:
        give_up_s = time.monotonic() + within_s
        while not is_so() and self.process.poll() is None:
            assert time.monotonic() < give_up_s, self.all_said()
            time.sleep(0.1)

    def figures(self) -> dict[str, int]:
        found = re.findall(r"│ ([^│]+?) +│ ([\d,]+) +│", self.said)
        return {name.strip(): int(figure.replace(",", "")) for name, figure in found}


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(500)
def test_the_demos_books_balance_and_nothing_is_undecided_although_shops_and_sidecar_are_killed(
    tmp_path: Path,
) -> None:
    demo = _Demo(tmp_path, "--orders", "600", "--deaths", "3", "--stay")
    try:
        demo.await_end_of_play()
        _resume_as_printed(demo.said)
        code = demo.end()
    finally:
        demo.process.terminate()
        demo.process.wait(_END_S)
    assert code == 0, demo.all_said()
    figures = demo.figures()
    for name in ("lost", "doubled", "invented", "undecided"):
        assert figures[name] == 0, name
    assert figures["committed locally in spite of a fence"] == 0
    assert figures["parked (nobody could answer)"] == 3
    # It was not an empty run, and it was disturbed.
    assert figures["orders in the database"] > 400
    assert figures["attempts without an order (rolled back, died)"] > 20
    assert figures["messages summed by Spark"] == figures["messages visible on points"] > 400
    assert figures["messages visible on orders"] == figures["orders in the database"]
    assert (figures["shop processes killed"], figures["sidecar killed"]) == (3, 1)
    assert figures["Spark killed"] == 1
    facts = figures["orders with their points in Spark's facts"]
    assert facts == figures["orders in the database"]
    assert figures["customers whose totals in Spark are wrong"] == 0
    assert "more customers" in demo.all_said()
    # What the dead left behind was asked of those that came after them.
    assert figures["late local commits, refused by the fence"] > 0
    assert figures["answered: rolled back"] > 0
    assert figures["answered: cannot say yet"] > 0


def _resume_as_printed(said: str) -> None:
    assert "Parked: forgotten-1 of forgetful for orders: 5 checks brought no decision" in said
    printed = re.search(r"^  halfhitch (parked resume .*)$", said, re.MULTILINE)
    assert printed is not None, said
    done = subprocess.run(
        [sys.executable, "-m", "halfhitch_cli", *shlex.split(printed[1]), "--yes"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for number in (1, 2, 3):
        assert re.search(rf"forgotten-{number}\b.*resumed", done.stdout), done.stdout
