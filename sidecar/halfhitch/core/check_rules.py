"""How often, how long and how many times undecided transactions are checked."""

from dataclasses import dataclass
from zlib import crc32

from halfhitch.core.model import Identity


@dataclass(frozen=True, slots=True)
class CheckRules:
    """See the settings of the same names, which have the defaults."""

    immunity_ms: int
    interval_ms: int
    backoff: float
    interval_ms_max: int
    jitter: float
    count_max: int
    age_ms_max: int
    renew_ms: int
    incomplete_ms: int
    #: Nothing was heard of a check for so long: it may be sent again.
    answer_ms: int
    #: Undecided for so long, it is worth knowing about.
    doubt_ms: int = 1_000
    #: A check that could not be handed over is tried again after this.
    again_ms: int = 1_000

    def interval_after_ms(self, identity: Identity, number: int) -> int:
        """From check `number` to the next. The jitter is a function of both: no dice in here."""
        interval_ms = min(
            self.interval_ms * self.backoff ** min(max(0, number - 1), 64),
            float(max(self.interval_ms, self.interval_ms_max)),
        )
        part = crc32(b"%d %b" % (number, identity[1].encode())) / 0xFFFFFFFF
        return int(interval_ms * (1 + self.jitter * part))
