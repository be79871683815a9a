"""Servers that will not run as root: there (in a container, say) they run as `nobody`.

Also what is said where a server from Debian's packages is not there.
"""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

_ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_INSTALL = "tests/harness/packages.sh"

#: Become another user and stay bound to the supervisor's life: changing the user undoes that bond.
_AS_USER = """\
import ctypes, os, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]))
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
os.execv(sys.argv[3], sys.argv[3:])
"""


def as_user(command: Sequence[str]) -> list[str]:
    """The command, run as `nobody` if we are root; its program must be a whole path."""
    if os.geteuid() != 0:
        return list(command)
    nobody = pwd.getpwnam("nobody")
    numbers = [str(nobody.pw_uid), str(nobody.pw_gid)]
    return [sys.executable, "-I", "-S", "-c", _AS_USER, *numbers, *command]


def give(path: Path) -> None:
    """To the user that `as_user` runs as."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)


def program(name: str) -> str:
    """Where it is. Skips the test where it is not; root, who could install it, gets a failure."""
    found = shutil.which(name, path=os.pathsep.join((os.environ["PATH"], *_ADMIN_FOLDERS)))
    if found is not None:
        return found
    if os.geteuid() == 0 or os.environ.get("CI"):
        pytest.fail(f"there is no {name}: `make setup` installs it ({_INSTALL} says why not)")
    pytest.skip(f"there is no {name}: run {_INSTALL}, which says how to install it")
