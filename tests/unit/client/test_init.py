import subprocess
import sys

import pytest

import halfhitch
from halfhitch import client, errors


@pytest.mark.parametrize("name", client.__all__)
def test_every_public_name_is_found(name):
    assert getattr(client, name).__name__ == name


def test_what_the_distribution_offers_comes_from_the_client():
    """But for what a sidecar has answered: those errors are everybody's."""
    for name in halfhitch.__all__:
        if not name.startswith("_"):
            home = client if name in client.__all__ else errors
            assert getattr(halfhitch, name) is getattr(home, name)


def test_another_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="no attribute 'Producer'"):
        client.Producer  # noqa: B018


def test_the_blocking_client_imports_no_heavy_module():
    code = (
        "import sys; from halfhitch import TransactionProducer, Message;"
        "heavy = {'asyncio', 'dataclasses', 'email', 'inspect', 'json', 'logging', 'msgspec',"
        " 'random', 'ssl', 'urllib.parse', 'uuid'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"
