"""The part of docs/beside-dtm.md that is figures, made from a file of results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.dtm import results
from bench.page import with_part

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "beside-dtm.md"
_RECORD: Final = Path(__file__).with_name("record.json")
_MADE_BY: Final = "make bench-dtm"


def record(path: Path) -> dict[str, Any]:
    """Keep a file of results beside the code; gives what is in it."""
    shutil.copyfile(path, _RECORD)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def write(content: Mapping[str, Any]) -> None:
    """The part between the marks."""
    _PAGE.write_text(with_part(_PAGE.read_text(), _MADE_BY, figures(content)))


def figures(content: Mapping[str, Any]) -> str:
    """The part itself."""
    facts, plan = content["machine"], content["plan"]
    runs = [results.Run(**run) for run in content["runs"]]
    middle, worst = results.busy_percent(runs)
    made_of = [("its hot path compiled", "is_compiled"), ("its hot requests native", "is_native")]
    ours = [words for words, name in made_of if plan[name]] or ["interpreted"]
    rounds = f"{plan['rounds']} round" + ("s" if plan["rounds"] != 1 else "")
    kept = "with its log, written once a second" if plan["is_append_only"] else "without a log"
    return (
        f"{rounds} on servers started anew; {plan['seconds']:g} s measured in each run after "
        f"{plan['warm_up_s']:g} s of warm-up, and {plan['first_warm_up_s']:g} s of it on new "
        f"servers; bodies of {plan['body_bytes']} bytes over TCP; "
        f"{facts['cores']} cores ({facts['processor']}) shared by wrk and the servers; dtm "
        f"{facts['dtm']} on Redis {facts['redis']} {kept}; Half Hitch {facts['halfhitch']} with "
        f"{' and '.join(ours)}, Kafka {facts['kafka']}, librdkafka {facts['librdkafka']}. Other "
        f"programs took {middle:.0f} % of the machine in the middle run and {worst:.0f} % in the "
        f"worst one.\n\n{results.markdown(runs)}\n\n{results.sums(runs)}."
    )
