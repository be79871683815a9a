"""Thousands of lives, one seed each: lived, counted, and the first red one told with its trace."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Lines of the trace of a red seed that are shown; the last ones tell most.
_LINES_MAX = 400


@contextmanager
def silence() -> Iterator[None]:
    """Owners say what goes wrong, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Lives:
    """`live(seed, is_traced=)` gives a life, judged; its error carries the life.

    `seed_count` lives unless the variable `variable` says another number; HALFHITCH_FIRST_SEED is
    the first. `telling_count`: with fewer lives chance decides what happens in them.
    """

    def __init__(
        self, live: Callable[..., Any], *, variable: str, seed_count: int, telling_count: int
    ) -> None:
        self._live = live
        self._seed_count = int(os.environ.get(variable, str(seed_count)))
        self._first_seed = int(os.environ.get("HALFHITCH_FIRST_SEED", "0"))
        self._telling_count = telling_count
        self._is_traced = self._seed_count == 1

    def told(self, seed: int) -> str:
        """What happened in a red life, for people."""
        try:
            self._live(seed, is_traced=True)
        except BaseException as error:  # noqa: BLE001 - whatever it was, it is shown
            life = error.life  # type: ignore[attr-defined]
            lines = life.timeline.lines or []
            left_out = max(0, len(lines) - _LINES_MAX)
            return "\n".join(
                [
                    f"seed {seed} is red: make simulate SEED={seed}",
                    str(life.plan),
                    *([f"... {left_out} lines before"] if left_out else []),
                    *lines[-_LINES_MAX:],
                    f"{type(error).__name__}: {error}",
                ]
            )
        return f"seed {seed} is red only when it is not traced: it is not deterministic"

    def live_all(self, seeds: range) -> Counter[str]:
        """All of them; the first that is red fails the test with its trace."""
        count: Counter[str] = Counter()
        for seed in seeds:
            try:
                life = self._live(seed, is_traced=self._is_traced)
                count.update(life.timeline.count)
                print(*(life.timeline.lines or ()), sep="\n", end="")
            except Exception:  # noqa: BLE001 - told anew
                pytest.fail(self.told(seed), pytrace=False)
        return count

    def hold(self, must_happen: Mapping[str, int]) -> None:
        """As many as asked for; `must_happen`: at least so often in a thousand lives."""
        seed_count = self._seed_count
        began_s = time.process_time()
        count = self.live_all(range(self._first_seed, self._first_seed + seed_count))
        elapsed_s = time.process_time() - began_s
        rate = seed_count / elapsed_s
        print(f"{seed_count} lives in {elapsed_s:.0f} s of one core, {rate:.1f}/s")
        for name, times in sorted(count.items()):
            print(f"{times:9d}  {name}")
        if seed_count < self._telling_count:
            return
        rare = {
            name: (count[name], per_thousand * seed_count // 1_000)
            for name, per_thousand in must_happen.items()
            if count[name] < per_thousand * seed_count // 1_000
        }
        assert not rare, f"too rare to show anything (found, wanted): {rare}"

    def are_the_same_again(self, seed: int) -> None:
        """One seed, one life."""
        once, again = (self._live(seed, is_traced=True) for _ in range(2))
        assert once.timeline.lines == again.timeline.lines
        assert once.timeline.count == again.timeline.count
