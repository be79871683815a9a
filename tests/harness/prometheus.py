"""A real Prometheus for tests, Debian's: it scrapes once a second and is asked by HTTP."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from halfhitch.embedded.processes import ServerProcess
from harness.private_server import PrivateServer
from harness.unprivileged import program

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of what it scrapes, as an operator of Kubernetes would add it.
NAMESPACE = "shop"


class EmbeddedPrometheus(PrivateServer):
    """One Prometheus on loopback that scrapes these ports and evaluates these rules."""

    def __init__(self, ports: Sequence[int], rules: Path) -> None:
        self._targets = [f"127.0.0.1:{port}" for port in ports]
        self._rules = rules
        super().__init__()

    def start(self) -> Self:
        prometheus = program("prometheus")
        self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-prometheus-"))
        self.port = self._ports.take()
        static = {"targets": self._targets, "labels": {"namespace": NAMESPACE}}
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(self._rules)],
            "scrape_configs": [{"job_name": "halfhitch", "static_configs": [static]}],
        }
        path = self._folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(settings))
        try:
            self._process = ServerProcess(
                "the embedded Prometheus",
                [
                    prometheus,
                    f"--config.file={path}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--enable-feature=exemplar-storage",
                ],
                log=self._folder / "prometheus.log",
                sweep=self._folder,
            )
            self._await_answer()
        except BaseException:
            self.stop()
            raise
        return self

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def ask(self, path: str, **parameters: object) -> Any:
        """The data of an answer; what it refuses is an assertion with its words."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=20) as answer:
                return json.loads(answer.read())["data"]
        except HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression gives now: a list of series, each with labels and a value."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def lines(self, expression: str, since_s: float, step_s: float) -> list[dict[str, Any]]:
        """The same over the last seconds: each series has `values`, pairs of time and text."""
        now_s = float(self.ask("query", query="time()")["result"][1])
        found: list[dict[str, Any]] = self.ask(
            "query_range", query=expression, start=now_s - since_s, end=now_s, step=step_s
        )["result"]
        return found
