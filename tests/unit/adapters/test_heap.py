"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest

from halfhitch.adapters.heap import give_back

_COUNT = 40_000
_BYTES = 1_000


def resident_bytes() -> int:
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc keeps memory so")
def test_what_a_thread_has_freed_does_not_stay_taken() -> None:
    """What a backlog took stayed with the threads that had gathered it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    freed, may_end = threading.Event(), threading.Event()

    def gather_and_free() -> None:
        taken = []
        for _ in range(_COUNT):
            taken.append(libc.malloc(_BYTES))
            libc.memset(taken[-1], 1, _BYTES)
        for address in taken[:-1]:  # the last one lies above all others: nothing is given back
            libc.free(address)
        freed.set()
        may_end.wait(60)
        libc.free(taken[-1])

    thread = threading.Thread(target=gather_and_free)
    thread.start()
    assert freed.wait(60)
    before = resident_bytes()
    try:
        assert give_back()
        after = resident_bytes()
    finally:
        may_end.set()
        thread.join()
    assert before - after > _COUNT * _BYTES / 2


def test_another_c_library_has_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not give_back()
