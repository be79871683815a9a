"""Each way is compared with the cell of raw Kafka of its own round."""

from __future__ import annotations

from bench.beside_raw import RAW, Beside, markdown, report, rows


def beside(mode: str, callers: int, per_s: list[float], p50_ms: list[float]) -> Beside:
    return Beside(
        mode, callers, per_s, p50_ms, [50.0] * len(per_s), [40.0] * len(per_s), [3.0] * len(per_s)
    )


FOUND = [
    beside(RAW, 64, [100, 1_000, 500], [1, 1, 1]),
    beside("in process", 64, [50, 900, 350], [2, 3, 4]),
    beside(RAW, 1, [10, 20, 30], [1, 2, 4]),
    beside("HTTP, unix socket", 1, [10, 10, 30], [2, 2, 4]),
]


def test_ratios_are_of_the_cells_of_one_round() -> None:
    _, in_process, _, one = rows(FOUND)
    assert in_process[3:5] == ("0.70", "0.50 to 0.90")
    assert in_process[8] == "3.00"
    assert one[3] == "1.00"  # of raw Kafka with as many callers


def test_raw_kafka_is_not_compared_with_itself() -> None:
    assert rows(FOUND)[0][3:5] == ("", "")


def test_what_others_took_is_said() -> None:
    assert "others took 3 % of the machine" in "\n".join(report(FOUND))
    facts = dict.fromkeys(("cores", "processor", "kafka", "librdkafka"), "2")
    assert "took 3 % of the machine in the middle cell" in markdown(FOUND, facts, 3.0)
    assert report([]) == []
