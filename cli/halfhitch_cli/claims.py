"""What one `halfhitch dev` claims for itself: its folder, and the usual ports.

File locks: what one that is killed had claimed is free at once. An empty file stays.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """One `dev` in a folder. Its servers keep it some seconds longer, if it is killed.

    Raises EmbeddedError at once: whoever starts a second one has forgotten the first.
    """
    from halfhitch.embedded import EmbeddedError

    with (folder / "dev.lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise EmbeddedError(
                f"another `halfhitch dev` (process {lock.read().strip() or 'unknown'}) works in "
                f"the folder {folder}. Use that one, end it with Ctrl-C in its terminal, or run a "
                "second one beside it: `halfhitch dev --data FOLDER --http-port 0 --admin-port 0`."
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


@contextmanager
def usual_port(port: int) -> Iterator[bool]:
    """Whether this `dev` takes its usual port: nobody has it, and no other `dev` is about to.

    Seconds lie between the look and the server's own bind, and two often begin together: in tests.
    """
    path = Path(tempfile.gettempdir()) / f"halfhitch-dev-{os.getuid()}-{port}.lock"
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # then only the look tells
        yield is_free(port)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = is_free(port)
    except OSError:
        is_ours = False
    try:
        yield is_ours
    finally:
        os.close(lock)


def is_free(port: int) -> bool:
    """Whether nobody listens there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
