"""The committed locks are those that relock writes."""

from __future__ import annotations

from halfhitch.embedded import jars, relock


def test_the_committed_locks_are_those_that_relock_writes():
    for name, folder, roots, excluded in relock.PLANS:
        lock = jars.read_lock(name)
        assert (lock.folder, lock.roots, lock.excluded) == (folder, roots, excluded)
    on_disk = {path.name.removesuffix(".lock.json") for path in jars._LOCKS.iterdir()}
    assert on_disk == {name for name, *_ in relock.PLANS}
