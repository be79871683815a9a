"""The names that are offered, loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import halfhitch.testing


@pytest.mark.parametrize("name", halfhitch.testing.__all__)
def test_every_name_is_there(name):
    if name == "HalfHitchContainer":
        pytest.importorskip("testcontainers")
    assert getattr(halfhitch.testing, name).__name__ == name


def test_another_name_is_not_there():
    with pytest.raises(AttributeError, match="Nobody"):
        _ = halfhitch.testing.Nobody


def test_pytest_s_own_start_loads_nothing_of_the_coordinator():
    """The plugin is imported by every run of pytest where halfhitch is installed."""
    shown = "import halfhitch.testing.plugin, sys; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert "halfhitch.testing.plugin" in told
    heavy = ("confluent_kafka", "msgspec", "halfhitch.client", "halfhitch.service")
    assert [name for name in heavy if name in told] == []


def test_without_the_extra_it_says_what_to_install():
    hidden = (
        "import sys; sys.modules['msgspec'] = None\nfrom halfhitch.testing import MemoryCoordinator"
    )
    ended = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False, timeout=60
    )
    assert "pip install 'halfhitch[sidecar]'" in ended.stderr.splitlines()[-1], ended.stderr
