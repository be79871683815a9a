"""What a test lets go wrong: each fault strikes once, in order."""

from halfhitch.adapters.memory.faults import AppendFault, Faults, WriteFault


def test_faults_are_used_up_in_order_and_none_lets_a_call_pass() -> None:
    faults = Faults(appends=[None, AppendFault.LOST], writes=[WriteFault.ABORTED])
    assert [faults.next_append() for _ in range(3)] == [None, AppendFault.LOST, None]
    assert [faults.next_write() for _ in range(2)] == [WriteFault.ABORTED, None]


def test_a_target_without_a_leader_stores_no_more_than_one_that_is_away() -> None:
    faults = Faults(away_topics={"orders"}, leaderless={"points"}, forbidden={"bills"})
    assert faults.away(["orders", "points", "bills"]) == {"orders", "points"}
    faults.away_topics.clear()
    assert faults.away(["orders"]) == frozenset()
