"""`RunningSidecar`: `halfhitch serve` as a process, on a Kafka of the test's own or a given one."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from halfhitch.config import SETTINGS
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
from halfhitch.errors import ConfigurationError, HalfHitchError

_READY_S: Final = 90.0
_STOP_S: Final = 30.0
_LOOK_S: Final = 0.05
_SERVING: Final = re.compile(r"serving on (http://\S+) and \S+, admin on port (\d+)")
_ENV_OF: Final = {setting.key: setting.env for setting in SETTINGS}
_LOG_SHOWN: Final = 2_000


class SidecarFailed(HalfHitchError):
    """It has ended, or it does not become ready; the text has the end of its log."""


class RunningSidecar:
    """Use it in a `with` block: on entry it is ready, on exit it has ended.

    `bootstrap` names a Kafka that runs already; without it one is started for this sidecar alone
    (halfhitch[embedded]), and a Redis. `settings` are those of a coordinator by their dotted names.
    """

    def __init__(
        self, bootstrap: str | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        unknown = [key for key in settings or {} if key not in _ENV_OF]
        if unknown:
            raise ConfigurationError(f"There is no setting {unknown[0]!r}.")
        self.bootstrap = bootstrap or ""
        self._settings = dict(settings or {})
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._own: dict[str, object] = {}
        self._log = Path()
        self._folder = Path()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="halfhitch-testing-"))
            self._folder = Path(folder)
            self._log = self._folder / "sidecar.log"
            own: dict[str, object] = {}
            self._own = own
            if not self.bootstrap:
                kafka = stack.enter_context(EmbeddedKafka(short_lived=True))
                own["kafka.bootstrap"] = kafka.bootstrap
                own["redis.url"] = stack.enter_context(EmbeddedRedis()).url
                stack.callback(setattr, self, "bootstrap", "")
                self.bootstrap = kafka.bootstrap
            stack.callback(self._end)
            self._start(own)
            self._wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _start(self, own: Mapping[str, object]) -> None:
        settings: dict[str, object] = {
            "kafka.bootstrap": self.bootstrap,
            "handle.key": "a key that only tests would use",
            "http.port": 0,
            "http.socket": self._folder / "halfhitch.sock",
            "admin.port": 0,
            "owner.session_timeout_ms": 6000,
            "topics.create": True,
            "topics.replication_factor": 1,
            "topics.partitions": 1,
            **own,
            **self._settings,
        }
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_")}
        environment |= {_ENV_OF[key]: _text(value) for key, value in settings.items()}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "halfhitch_cli", "serve"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_ready(self) -> None:
        clock = threading.Event()
        for _ in range(int(_READY_S / _LOOK_S)):
            if self._status("/readyz") == 204:
                return
            if self._process is None or self._process.poll() is not None:
                raise SidecarFailed(f"The sidecar has ended:\n{self.log_text()}")
            clock.wait(_LOOK_S)
        raise SidecarFailed(f"The sidecar is not ready after {_READY_S:.0f} s:\n{self.log_text()}")

    def _status(self, path: str) -> int:
        serving = _SERVING.search(self._log.read_text(errors="replace"))
        if serving is None:
            return 0
        try:
            with urlopen(f"http://127.0.0.1:{serving[2]}{path}", timeout=5) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code
        except (URLError, OSError):
            return 0

    def _end(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)

    # -- where it is -------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Of the data door, as producers take it."""
        return self._served()[1]

    @property
    def admin_address(self) -> str:
        """Of the admin door: status, metrics, what the command line talks to."""
        return f"http://127.0.0.1:{self._served()[2]}"

    @property
    def socket_address(self) -> str:
        """Of the data door on its unix socket."""
        return f"unix:{self._folder / 'halfhitch.sock'}"

    def _served(self) -> re.Match[str]:
        text = self._log.read_text(errors="replace") if self._log.is_file() else ""
        found = _SERVING.search(text)
        if found is None:
            raise ConfigurationError(
                "This RunningSidecar is not running: use it as `with RunningSidecar() as sidecar`."
            )
        return found

    def log_text(self) -> str:
        """The end of what it has written."""
        return self._log.read_text(errors="replace")[-_LOG_SHOWN:]

    def create_topic(self, topic: str, partition_count: int = 1) -> None:
        """A topic of the users, unless it is there."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics([NewTopic(topic, partition_count)]).values():
            try:
                created.result(_READY_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    # -- what tests do to it -----------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9. What was acknowledged is in Kafka; `start_again` goes on with it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_STOP_S)

    def start_again(self) -> None:
        """After `kill`; on other ports, on the same socket. Returns when it is ready."""
        if self._process is not None and self._process.poll() is None:
            raise ConfigurationError("This RunningSidecar is running: kill it first.")
        self._log.unlink()
        self._start(self._own)
        self._wait_ready()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
