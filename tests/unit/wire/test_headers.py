"""Header names are a public contract: consumers, Spark jobs and other releases read them."""

from halfhitch.wire import headers as names

LITERALS = {
    "REAL_TOPIC",
    "REAL_QID",
    "PGROUP",
    "UNIQ_KEY",
    "TRAN_MSG",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "TRANSACTION_CHECK_TIMES",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "HALFHITCH",
    "HALFHITCH_COPY",
    "HALFHITCH_PARKED",
    "TAGS",
}


def test_the_names_that_stand_in_kafka_never_change() -> None:
    assert {getattr(names, literal) for literal in LITERALS} == LITERALS
    assert names.RECORD_VERSION == 1


def test_a_user_may_use_no_name_that_a_half_record_uses() -> None:
    assert names.HALF_ONLY < names.SYSTEM < names.RESERVED
    on_half_records = LITERALS - {"TAGS", "HALFHITCH_PARKED"}
    assert on_half_records == names.SYSTEM
    assert "__transactionId__" in names.RESERVED


def test_every_header_of_our_own_is_under_the_reserved_prefix() -> None:
    for name in (names.HALFHITCH, names.HALFHITCH_COPY, names.HALFHITCH_PARKED):
        assert name.startswith(names.RESERVED_PREFIX)


def test_what_a_forwarded_record_carries_is_not_among_what_is_taken_off() -> None:
    carried = {names.PGROUP, names.UNIQ_KEY, names.HALFHITCH}
    assert carried == names.SYSTEM - names.HALF_ONLY
