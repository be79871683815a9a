"""Where signals may strike."""

from __future__ import annotations

import sys
from typing import Any

from harness.strikes import is_of_coverage


def test_a_signal_in_the_handler_of_another_was_not_taken_for_one_in_the_coverage() -> None:
    """A lane of the tests hung for good: what measures its coverage never let its lock go."""

    def called_by(file: str) -> bool:
        def handler() -> bool:
            return is_of_coverage(sys._getframe())

        within: dict[str, Any] = {"handler": handler}
        exec(compile("found = handler()", f"/lib/coverage/{file}", "exec"), within)
        return bool(within["found"])

    assert called_by("collector.py")
    assert not called_by("execfile.py"), "at the bottom of each stack"
