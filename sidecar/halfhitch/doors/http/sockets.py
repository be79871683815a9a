"""The unix socket of a door: made, replaced and removed without harm to anybody else's.

Owns the file of a unix socket. It is replaced only if nobody listens behind it, is for owner and
group alone from its first moment, and on the way out is removed only if it is still ours.
"""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

from halfhitch.errors import ConfigurationError

_MODE = 0o660


class UnixListener:
    """A bound unix socket, to be handed to a server."""

    def __init__(self, path: str) -> None:
        """Bind. Raises ConfigurationError."""
        self.path = Path(path)
        _remove_stale(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the file gets at most the mode of its descriptor: there is no moment at
            # which others could connect, and no umask, which belongs to all threads.
            with contextlib.suppress(OSError):
                os.fchmod(self.socket.fileno(), _MODE)
            self.socket.bind(path)
            self.path.chmod(_MODE)
            self._identity = _identity(self.path.stat())
        except OSError as error:
            self.socket.close()
            raise ConfigurationError(
                f"Cannot listen on the unix socket {path}: {error}. Its folder must exist and be "
                "writable, and the whole path have at most 107 bytes."
            ) from error

    def remove(self) -> None:
        """Remove the file, unless a successor has put its own there.

        To be called before the socket is closed: only until then is the file's inode number
        surely not given to another file.
        """
        with contextlib.suppress(OSError):
            if _identity(self.path.lstat()) == self._identity:
                self.path.unlink()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _remove_stale(path: Path) -> None:
    """Clear the place. Raises ConfigurationError if something is there that must stay."""
    try:
        status = path.lstat()
    except OSError:
        return  # nothing there, or nothing to be seen: binding will say
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigurationError(
            f"{path} exists and is no socket; choose another path for the unix socket."
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Without waiting: a listener whose backlog is full is alive all the same.
        probe.setblocking(False)
        outcome = probe.connect_ex(str(path))
    if outcome not in (errno.ECONNREFUSED, errno.ENOENT):
        raise ConfigurationError(
            f"Another process listens on the unix socket {path}; stop it, or choose another path."
        )
    path.unlink(missing_ok=True)
