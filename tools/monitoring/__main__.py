"""Writes the alerts and dashboards of their sources.

python tools/monitoring      writes anew what differs (`make format` does)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grafana import dashboard_text
from panels import DASHBOARDS
from rules import rules_text, template_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parents[2]


def made() -> Iterator[tuple[Path, str]]:
    """Every file that this writes, and its text."""
    yield _ROOT / "dashboards" / "rules.yaml", rules_text()
    templates = _ROOT / "deploy" / "helm" / "halfhitch" / "templates"
    yield templates / "prometheusrule.yaml", template_text()
    for dashboard in DASHBOARDS:
        text = dashboard_text(dashboard, DASHBOARDS)
        # Helm reads no file outside of its chart.
        for folder in (_ROOT, templates.parent):
            yield folder / "dashboards" / f"{dashboard.name}.json", text


def main() -> int:
    """Write what differs."""
    for path, text in made():
        if not path.is_file() or path.read_text() != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"{path} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
