"""What becomes of a transaction that nobody can answer for: by the topics of its messages."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from halfhitch.core.model import Resolution
from halfhitch.errors import ConfigurationError

_BY_NAME: Final = {
    "park": Resolution.PARK,
    "rollback": Resolution.ROLLBACK,
    "commit": Resolution.COMMIT,
}
POLICY_NAMES: Final = {resolution: name for name, resolution in _BY_NAME.items()}
#: Most cautious first: a parked transaction can still become either, a rolled back one sent anew.
_CAUTION: Final = (Resolution.PARK, Resolution.ROLLBACK, Resolution.COMMIT)
_CACHE_MAX: Final = 10_000


class GiveUpPolicy:
    """From the settings checks.give_up and checks.give_up_topics. Raises ConfigurationError."""

    def __init__(self, give_up: str, give_up_topics: Sequence[str] = ()) -> None:
        self._default = _resolution(give_up, "checks.give_up", "park")
        self._patterns = [_parsed(text) for text in give_up_topics]
        self._of_topic: dict[str, Resolution] = {}

    def of(self, topics: Iterable[str]) -> Resolution:
        """For a transaction with messages for these topics the most cautious policy holds."""
        found = {self._of(topic) for topic in topics}
        for resolution in _CAUTION:
            if resolution in found:
                return resolution
        return self._default

    def _of(self, topic: str) -> Resolution:
        resolution = self._of_topic.get(topic)
        if resolution is None:
            matches = (found for pattern, found in self._patterns if fnmatchcase(topic, pattern))
            resolution = next(matches, self._default)
            if len(self._of_topic) < _CACHE_MAX:
                self._of_topic[topic] = resolution
        return resolution


def _parsed(text: str) -> tuple[str, Resolution]:
    pattern, separator, name = text.rpartition("=")
    pattern = pattern.strip()
    if not separator or not pattern:
        raise ConfigurationError(
            f"checks.give_up_topics: {text!r} is no pattern with a policy; "
            "write it like orders.*=rollback."
        )
    return pattern, _resolution(name.strip(), "checks.give_up_topics", f"{pattern}=rollback")


def _resolution(name: str, setting: str, example: str) -> Resolution:
    resolution = _BY_NAME.get(name)
    if resolution is None:
        raise ConfigurationError(
            f"{setting}: {name!r} is no policy; use park, rollback or commit: {example}."
        )
    return resolution
