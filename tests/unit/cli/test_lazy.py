"""`halfhitch --help` must feel instant, on any machine.

Times differ by machine, so the bound is a ratio to the start of Python itself, in processor time,
each the best of several runs taken in turn. And the cause is checked too: what is not imported
cannot cost anything.
"""

import resource
import subprocess
import sys

RATIO_MAX = 5.0  # measured below 2; the budget of 150 ms is about 10 starts of Python
RUNS = 5
HEAVY = (
    "confluent_kafka",
    "halfhitch.config",
    "halfhitch.embedded",
    "msgspec",
    "prometheus_client",
    "pydantic",
    "redis",
    "rich",
    "typer",
)


def seconds(*arguments: str) -> float:
    """Of the processor: what waits for it beside twenty others is not slow."""
    before_s = children_cpu_s()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=60)
    return children_cpu_s() - before_s


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_takes_a_small_multiple_of_starting_python() -> None:
    program = "from halfhitch_cli.app import main; raise SystemExit(main(['--help']))"
    pairs = [(seconds("-c", "pass"), seconds("-c", program)) for _ in range(RUNS)]
    python_s, help_s = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(f"python {python_s * 1000:.0f} ms, halfhitch --help {help_s * 1000:.0f} ms")
    assert help_s < RATIO_MAX * python_s


def test_help_of_a_command_imports_no_server() -> None:
    program = (
        "import sys; from halfhitch_cli.app import main; main(['serve', '--help']);"
        "names = ('confluent_kafka', 'halfhitch.composition', 'httptools', 'rich');"
        "sys.exit(', '.join(name for name in names if name in sys.modules) or 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_help_and_version_import_nothing_heavy() -> None:
    program = (
        "import sys; from halfhitch_cli.app import main; main(['--help']); main(['--version']);"
        f"found = [name for name in {HEAVY!r} if name in sys.modules];"
        "sys.exit(', '.join(found) or 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert result.stderr == ""
    assert result.returncode == 0
