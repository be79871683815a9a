from __future__ import annotations

import pytest

from harness.django_project import TOPIC, project, sqlite


@pytest.fixture
def shop(halfhitch_coordinator, tmp_path):
    halfhitch_coordinator.create_topic(TOPIC)
    with project(halfhitch_coordinator, sqlite(tmp_path)) as made:
        yield made
