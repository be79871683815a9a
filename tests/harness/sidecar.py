"""`halfhitch serve` as a process of its own, as it is shipped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from harness.kafka import wait_until

#: What /readyz says of one that takes prepares; the second: with a word about what is missing.
READY = (204, 200)


class Sidecar:
    """Start it, ask it, end it. `folder` takes its socket and its log."""

    #: Whose packages it is made of; another one has its own alone.
    python = sys.executable
    #: Of whoever asks the admin door, where that asks for one.
    token: str | None = None

    def __init__(self, bootstrap: str, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.socket = folder / "hh.sock"
        self.log = folder / "sidecar.log"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_")},
            "HALFHITCH_KAFKA_BOOTSTRAP": bootstrap,
            "HALFHITCH_HANDLE_KEY": "a key that only tests would use",
            "HALFHITCH_HTTP_PORT": "0",
            "HALFHITCH_HTTP_SOCKET": str(self.socket),
            "HALFHITCH_ADMIN_PORT": "0",
            "HALFHITCH_OWNER_SESSION_TIMEOUT_MS": "6000",
            "HALFHITCH_TOPICS_REPLICATION_FACTOR": "1",
            "HALFHITCH_TOPICS_PARTITIONS": "1",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "halfhitch_cli", "serve"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    @property
    def admin_port(self) -> int:
        """As the log of the newest start tells it."""

        def told() -> int | None:
            words = self.log.read_text().split("admin on port ")
            return int(words[-1].split()[0]) if len(words) > 1 else None

        wait_until(lambda: told() is not None or self.exit_code is not None, 20, what="a port")
        port = told()
        assert port is not None, self.log.read_text()
        return port

    @property
    def exit_code(self) -> int | None:
        assert self.process is not None
        return self.process.poll()

    def ask(self, path: str) -> tuple[int, Any]:
        """Status and JSON of the admin door; status 0 when nobody answers."""
        try:
            headers = {} if self.token is None else {"Half-Token": self.token}
            asked = Request(f"http://127.0.0.1:{self.admin_port}{path}", headers=headers)
            with urlopen(asked, timeout=5) as answer:
                body = answer.read()
                return answer.status, json.loads(body) if body else None
        except HTTPError as error:
            with error:
                body = error.read()
                return error.code, json.loads(body) if body else None
        except (URLError, OSError):
            return 0, None

    def wait_ready(self, deadline_s: float = 40.0) -> Self:
        wait_until(
            lambda: self.exit_code is not None or self.ask("/readyz")[0] in READY,
            deadline_s,
            what="readiness",
        )
        assert self.exit_code is None, self.log.read_text()
        return self

    def wait_settled(self, deadline_s: float = 40.0) -> None:
        """Until every decision is carried out."""

        def settled() -> bool:
            status, answer = self.ask("/v1/status")
            partitions = answer["partitions"] if status == 200 else []
            return bool(partitions) and all(
                p["phase"] == "working" and p["decided_count"] == p["early_count"] == 0
                for p in partitions
            )

        wait_until(settled, deadline_s, what="all decisions carried out")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)

    def terminate(self, deadline_s: float = 30.0) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
