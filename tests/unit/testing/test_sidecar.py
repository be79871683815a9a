"""What RunningSidecar says before it runs; tests/integration/test_testing_sidecar.py runs it."""

from __future__ import annotations

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch.testing.outside import SidecarFailed
from halfhitch.testing.sidecar import RunningSidecar


def test_a_setting_that_does_not_exist_is_named():
    with pytest.raises(ConfigurationError, match=r"checks\.count_maximum"):
        RunningSidecar(settings={"checks.count_maximum": 3})


def test_without_its_block_it_says_how_it_is_used():
    with pytest.raises(ConfigurationError, match="with RunningSidecar"):
        _ = RunningSidecar("127.0.0.1:1").address


def test_a_sidecar_that_does_not_start_shows_why():
    wrong = RunningSidecar("127.0.0.1:1", {"checks.count_max": 0})
    with pytest.raises(SidecarFailed, match=r"checks\.count_max"), wrong:
        pass
