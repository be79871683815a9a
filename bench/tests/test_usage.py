"""Two clocks of one process must agree."""

from __future__ import annotations

import os
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
