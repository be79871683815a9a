"""How much, how long, how many: the limits of the check-back at one instance."""

from dataclasses import dataclass, field

from halfhitch.service.checking.breaker import BreakerLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskLimits:
    """The settings checks.in_flight_max and checks.answer_s_max, and what nobody needs to set."""

    in_flight_max: int
    answer_s: float
    #: How much longer another instance may take to report.
    inbox_grace_s: float = 3.0
    #: What has lain longer in an inbox is not delivered any more.
    inbox_age_s: float = 2.0
    breaker: BreakerLimits = field(default_factory=BreakerLimits)
    sweep_s: float = 0.25
    #: A group that nobody has spoken of for so long is forgotten.
    idle_s: float = 600.0
    #: Permits that were neither used nor given back for so long are taken back.
    grant_s: float = 300.0
