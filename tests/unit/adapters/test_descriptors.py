"""The limit on open files, in processes of their own: it cannot be taken back."""

import subprocess
import sys

import pytest

from halfhitch.adapters.descriptors import have_descriptors


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "had"),
    [(64, 300, 200, 200), (64, 300, 400, 300), (250, 300, 200, 200), (64, 64, 200, 64)],
)
def test_the_soft_limit_is_raised_as_far_as_the_hard_one_lets_it(
    soft: int, hard: int, wanted: int, had: int
) -> None:
    program = (
        "import resource; from halfhitch.adapters.descriptors import have_descriptors;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        f"had = have_descriptors({wanted});"
        "print(had, *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == [str(had), str(max(soft, had)), str(hard)]


def test_where_there_is_no_limit_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    infinite = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (infinite, infinite))
    monkeypatch.setattr(resource, "setrlimit", None)
    assert have_descriptors(5_000) == 5_000


def test_a_system_that_refuses_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert have_descriptors(5_000) == 256
