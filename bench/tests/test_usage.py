"""Two clocks of one process must agree."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench import usage


def test_the_exact_clock_shows_what_this_process_has_used():
    before_s = usage.exact_cpu_s(os.getpid())
    own_s = time.process_time()
    while time.process_time() - own_s < 0.05:
        pass
    spent_s = usage.exact_cpu_s(os.getpid()) - before_s
    assert spent_s >= 0.05
    # Other threads of this process may have worked as well, but not for long.
    assert abs(usage.exact_cpu_s(os.getpid()) - usage.cpu_s(os.getpid())) < 1.0


def test_the_threads_of_a_process_have_used_what_it_has():
    own_s = time.process_time()
    while time.process_time() - own_s < 0.05:
        pass
    threads_s = usage.thread_cpu_s(os.getpid())
    assert 0.05 <= sum(threads_s.values()) <= usage.exact_cpu_s(os.getpid()) + 0.01


def test_a_family_has_those_below_it_and_not_those_that_are_left_out():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        give_up_s = time.monotonic() + 30
        while len(usage.family_ticks(child.pid)) < 2 and time.monotonic() < give_up_s:
            time.sleep(0.01)
        below = set(usage.family_ticks(child.pid))
        assert len(below) == 2
        assert below <= set(usage.family_ticks(os.getpid()))
        assert not below & set(usage.family_ticks(os.getpid(), [child.pid]))
        child.communicate(b"\n")
