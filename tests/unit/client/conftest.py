"""What the tests of both producers share: a scripted server and a producer that talks to it."""

import pytest

from harness.producers import SHELLS, driven
from harness.scripted_http import ScriptedServer


class World:
    """A server and a producer that talks to it."""

    def __init__(self, server, producer):
        self.server = server
        self.producer = producer

    def ends(self):
        """What became of transactions, as paths say it."""
        return [
            target.rpartition("/")[2].partition("?")[0]
            for target in self.server.targets()
            if target.partition("?")[0].endswith(("commit", "rollback"))
        ]


@pytest.fixture(params=[f"{shell}-{kind}" for shell in SHELLS for kind in ("tcp", "unix")])
def given(request):
    shell, kind = request.param.split("-")
    open_worlds = []

    def give(*script, **options):
        server_options = {name: options.pop(name) for name in ("otherwise",) if name in options}
        options.setdefault("answers_checks", False)  # its request would take a step of the script
        server = ScriptedServer(*script, unix=kind == "unix", **server_options)
        server.__enter__()
        opened = driven(shell, "orders", server.address, **options)
        world = World(server, opened.__enter__())
        open_worlds.append((server, opened))
        return world

    give.shell = shell
    yield give
    for server, opened in open_worlds:
        opened.__exit__(None, None, None)
        server.__exit__(None, None, None)


@pytest.fixture(params=SHELLS)
def shell(request):
    return request.param
