"""docs/performance.md and its picture, made from a file of results.

The page is written by hand but for one part, between two marks: the machine, the table, the sums.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.rocketmq import picture, results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_PAGE: Final = _DOCS / "performance.md"
_PICTURE: Final = _DOCS / "performance.svg"
_RECORD: Final = Path(__file__).with_name("record.json")
_BEGIN, _END = "<!-- figures: made by make bench-rocketmq -->", "<!-- end of figures -->"


def record(path: Path) -> dict[str, Any]:
    """Keep a file of results beside the code; gives what is in it."""
    shutil.copyfile(path, _RECORD)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def write(content: Mapping[str, Any]) -> None:
    """The part between the marks, and the picture."""
    runs = [results.Run(**run) for run in content["runs"]]
    _PICTURE.write_text(picture.draw(runs))
    _PAGE.write_text(with_figures(_PAGE.read_text(), figures(content, runs)))


def with_figures(text: str, new: str) -> str:
    """The page with other figures; everything outside the marks stays."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page lacks its marks: {_BEGIN} and {_END}")
    return f"{before}{_BEGIN}\n{new}\n{_END}{after}"


def figures(content: Mapping[str, Any], runs: Sequence[results.Run]) -> str:
    """The part itself."""
    facts, plan = content["machine"], content["plan"]
    rounds = f"{plan['rounds']} round" + ("s" if plan["rounds"] != 1 else "")
    return "\n".join(
        [
            "",
            f"{rounds}; {_seconds(runs)} s measured in each run after {plan['warm_up_s']:g} s of "
            f"warm-up; bodies of {plan['body_bytes']} bytes; {facts['cores']} cores "
            f"({facts['processor']}) shared by the client and the servers; Java {facts['java']}, "
            f"Python {facts['python']}, Kafka {facts['kafka']}, librdkafka {facts['librdkafka']}; "
            f"heap of each broker and of the client {plan['heap_mib']} MiB; "
            f"{plan['half_partitions']} half partitions, "
            + ("the owner in a process of its own" if plan["owner_apart"] else "one process")
            + (", its hot path compiled" if plan.get("is_compiled") else ", nothing compiled")
            + (", its hot requests on native threads." if plan.get("is_native") else ".")
            + f" Other processes took at most {results.busy_percent(runs):.0f} % of the machine.",
            "",
            "![Transactions per second](performance.svg)",
            "",
            results.markdown(runs),
            "",
            results.sums(runs) + ".",
            "",
        ]
    )


def _seconds(runs: Sequence[results.Run]) -> str:
    windows = {len(run.windows_tps) * 9 for run in runs}
    return re.sub(r"[{}]", "", str(sorted(windows))).strip("[]")
