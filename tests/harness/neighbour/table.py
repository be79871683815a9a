"""All attacks, in the order in which they are tried."""

from __future__ import annotations

from typing import Final

from harness.neighbour import exhausting, reading, stalling, taking

ATTACKS: Final = (
    *reading.ATTACKS,
    *taking.ATTACKS,
    *exhausting.ATTACKS,
    *stalling.ATTACKS,
    # The last: nothing that the attacker prepares is taken for a while then.
    exhausting.undecided_of_many_groups,
)
