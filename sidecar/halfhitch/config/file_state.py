"""What tells whether a file is still what it was, without reading it: for those read again later.

Rights that are changed change nothing but the time of the change; a file put in another's place has
another number.
"""

from pathlib import Path
from typing import Final

#: When its content and its rights were changed, its size, its number.
FileState = tuple[int, int, int, int]
GONE: Final[FileState] = (0, 0, 0, 0)


def state_of(path: Path) -> FileState:
    """Of what a link leads to; GONE where there is nothing, or nothing that may be looked at."""
    try:
        found = path.stat()
    except OSError:
        return GONE
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
