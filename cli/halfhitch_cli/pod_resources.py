"""What the sidecar of a pod may take of its node: requests and limits, in Kubernetes' amounts.

Owns `Resources`, which refuses with a sentence what an API server would refuse without a cure, or
take although it is too little. tools/annotations.py hands the names and bounds on to the
chart's policies, tools/charts.py to the schemas. Knows nothing of pods.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from halfhitch.errors import ConfigurationError

#: Flags and annotations, and what each is of a container.
AMOUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "cpu-request": ("requests", "cpu"),
    "cpu-limit": ("limits", "cpu"),
    "memory-request": ("requests", "memory"),
    "memory-limit": ("limits", "memory"),
}
#: As the charts have them. No limit on processor time: it would make answers late without need.
DEFAULTS: Final[Mapping[str, str]] = {
    "cpu-request": "50m",
    "cpu-limit": "none",
    "memory-request": "96Mi",
    "memory-limit": "512Mi",
}
#: What each is, for help and docs.
SAID: Final[Mapping[str, str]] = {
    "cpu-request": "Processor time that the sidecar asks for; none leaves it away.",
    "cpu-limit": "Processor time that it may take; none leaves it away.",
    "memory-request": "Memory that it asks for; none leaves it away.",
    "memory-limit": "Memory that it may take; none leaves it away.",
}
#: Leaves that request or limit away.
NONE: Final = "none"
#: 256Mi, 0.5, 250m; neither 256MB nor true. Nobody needs more digits, and to count with them all
#: takes time.
LOOKS_LIKE_AN_AMOUNT: Final = (
    "^[0-9]{1,18}([.][0-9]{0,9})?([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?$"
)
#: A sidecar takes more at rest (docs/production.md). `512m` is half a byte, and 512 a few.
LEAST_MEMORY: Final = "64Mi"
_EXAMPLES: Final = {"cpu": "250m or 0.5", "memory": "256Mi or 1Gi"}
_UNITS: Final = {
    **{unit: Decimal(10) ** power for unit, power in (("n", -9), ("u", -6), ("m", -3))},
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


def amount(text: str) -> Decimal:
    """What it comes to; only of what looks like one."""
    unit = next((each for each in (text[-2:], text[-1:]) if each in _UNITS), "")
    return Decimal(text.removesuffix(unit)) * _UNITS.get(unit, 1)


@dataclass(frozen=True, slots=True)
class Resources:
    """The amounts by their names, each an amount or `none`."""

    texts: Mapping[str, str]

    @classmethod
    def of(cls, given: Mapping[str, object], base: Mapping[str, str] = DEFAULTS) -> "Resources":
        """`given` in front of `base`; what is neither is none's."""
        own = {name: str(given[name]).strip() for name in AMOUNTS if given.get(name) is not None}
        for name, text in own.items():
            _, what = AMOUNTS[name]
            if text != NONE and not re.fullmatch(LOOKS_LIKE_AN_AMOUNT, text):
                raise ConfigurationError(
                    f"{name} cannot be {text!r}: give an amount as Kubernetes writes it, such as "
                    f"{_EXAMPLES[what]}, or none, by --{name} or the annotation halfhitch/{name}."
                )
            if name == "memory-limit" and text != NONE and amount(text) < amount(LEAST_MEMORY):
                raise ConfigurationError(
                    f"memory-limit is {text}, which is too little for a sidecar:"
                    f" give {LEAST_MEMORY} or more (a unit such as Mi belongs to it), or none."
                )
        return cls({**base, **own})

    def with_annotations(self, own: Mapping[str, object]) -> "Resources":
        """Those of a pod win, each by itself. `own` has names as `AMOUNTS` has them."""
        return Resources.of(own, self.texts)

    def checked(self) -> dict[str, Any]:
        """As a container has them. An API server makes none that asks for more than it may have."""
        found: dict[str, dict[str, str]] = {"limits": {}, "requests": {}}
        for name, (place, what) in AMOUNTS.items():
            if self.texts[name] != NONE:
                found[place][what] = self.texts[name]
        for what, request in found["requests"].items():
            limit = found["limits"].get(what)
            if limit is not None and amount(request) > amount(limit):
                raise ConfigurationError(
                    f"{what}-request is {request}, more than {what}-limit, which is {limit}: raise "
                    f"the limit, or ask for less, by --{what}-limit and --{what}-request or the "
                    f"annotations halfhitch/{what}-limit and halfhitch/{what}-request."
                )
        return {place: amounts for place, amounts in found.items() if amounts}
