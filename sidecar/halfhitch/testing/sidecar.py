"""`RunningSidecar`: `halfhitch serve` as a process, on a Kafka of the test's own or a given one."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from halfhitch.client import TransactionProducer
from halfhitch.config import SETTINGS
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
from halfhitch.errors import ConfigurationError
from halfhitch.testing import outside
from halfhitch.testing.outside import SETTINGS_OF_TESTS, Doors, await_ready, doors_in

_STOP_S: Final = 30.0
_KNOWN: Final = frozenset(setting.key for setting in SETTINGS)
_LOG_SHOWN: Final = 2_000


class RunningSidecar:
    """Use it in a `with` block: on entry it is ready, on exit it has ended.

    `bootstrap` names a Kafka that runs already; without it one is started for this sidecar alone
    (halfhitch[embedded]), and a Redis. `settings` are those of a coordinator by their dotted names.
    """

    def __init__(
        self, bootstrap: str | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        unknown = [key for key in settings or {} if key not in _KNOWN]
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
            **SETTINGS_OF_TESTS,
            "kafka.bootstrap": self.bootstrap,
            "http.port": 0,
            "http.socket": self._folder / "halfhitch.sock",
            "admin.port": 0,
            **own,
            **self._settings,
        }
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_")}
        environment |= outside.environment_of(settings)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "halfhitch_cli", "serve"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_ready(self) -> None:
        process = self._process
        await_ready(
            lambda: None if self._doors() is None else self.admin_address,
            lambda: process is None or process.poll() is not None,
            self.log_text,
        )

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
        return self._served().address

    @property
    def admin_address(self) -> str:
        """Of the admin door: status, metrics, what the command line talks to."""
        return f"http://127.0.0.1:{self._served().admin_port}"

    @property
    def socket_address(self) -> str:
        """Of the data door on its unix socket."""
        return f"unix:{self._folder / 'halfhitch.sock'}"

    def producer(self, group: str, **options: Any) -> TransactionProducer:
        """A producer that talks to this sidecar; `options` are those of TransactionProducer."""
        return TransactionProducer(group, self.address, **options)

    def _doors(self) -> Doors | None:
        return doors_in(self._log.read_text(errors="replace") if self._log.is_file() else "")

    def _served(self) -> Doors:
        found = self._doors()
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
        outside.create_topic(self.bootstrap, topic, partition_count)

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
