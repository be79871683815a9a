"""Makes a wheel whose hot path is compiled with mypyc: HATCH_BUILD_HOOK_ENABLE_CUSTOM=1.

Without that variable nothing here is even imported, and a wheel is pure, as ever. `pyproject.toml`
has the list of modules. They are compiled in a copy, so none is left behind beside its source,
where every run would find it; both go into the wheel, and Python finds the compiled one first.

hatch-mypyc does the same for projects with one folder of packages; here are three.

What the modules on the list owe to mypyc:

- Values that are made for each record write their `__init__` out (`@dataclass(init=False)`): the
  decorator's own would stay interpreted.
- No compiled class inherits from one written in C (`deque`) or from an interpreted one
  (`asyncio.Protocol`), nor an interpreted one from a compiled one. Errors stay interpreted for that
  reason. msgspec's structs do too: the options in a class's head would be lost.
- A slice of bytes must not end before it begins: compiled, that is a SystemError, not the empty
  slice.
- Arguments are checked: what is given for a class of ours must be of that class, and methods of an
  instance cannot be replaced. Protocols take anything. `Final` numbers are built in: a test that
  replaces one is marked `interpreted`.
- A generator expression that is handed on becomes a list at once. An attribute must not be called
  what is a word of C with two underscores before it (`_thread`).
- Compiled code gives the interpreter lock away only where it calls what is interpreted, or what
  waits: a long compiled call is not divided by the switch interval.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SETUP = """
import sys
from setuptools import setup
from mypyc.build import mypycify

modules = sys.argv[2:]
del sys.argv[2:]
compiled = mypycify(
    ["--ignore-missing-imports", *modules],
    opt_level="2", debug_level="0", group_name="halfhitch", target_dir="generated",
)
setup(name="halfhitch-compiled", packages=[], ext_modules=compiled,
      options={"build_ext": {"inplace": True}})
"""


class CompileHook(BuildHookInterface[Any]):
    """See the module's text."""

    _work: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and give the wheel what came of it."""
        if version == "editable":
            return
        self._work = work = Path(tempfile.mkdtemp(prefix="halfhitch-compiled-"))
        shutil.copytree(
            Path(self.root) / "sidecar" / "halfhitch",
            work / "halfhitch",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        modules = [
            path.relative_to(work).as_posix()
            for pattern in self.config["modules"]
            for path in sorted(work.glob(pattern))
        ]
        subprocess.run([sys.executable, "-c", _SETUP, "build_ext", *modules], cwd=work, check=True)
        suffix = ".pyd" if sys.platform == "win32" else ".so"
        found = [*work.glob(f"*{suffix}"), *work.glob(f"halfhitch/**/*{suffix}")]
        for path in found:
            build_data["force_include"][str(path)] = path.relative_to(work).as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
