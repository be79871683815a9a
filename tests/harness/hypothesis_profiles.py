"""How hard tests with made-up examples try: `--hypothesis-profile=big` for a long run by hand.

The default run draws the same examples each time, so that a red run is red for everybody; the big
one is where new examples are looked for.
"""

from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,  # the machine may be busy with other things
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile(
    "default", max_examples=100, stateful_step_count=50, derandomize=True, database=None, **_COMMON
)
settings.register_profile("big", max_examples=5_000, stateful_step_count=120, **_COMMON)
settings.load_profile("default")
