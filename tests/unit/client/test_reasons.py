"""What leaves this process of an exception in a check: enough to act on, and no content."""

import pytest

from halfhitch.client.reasons import REASON_CHARS_MAX, reason_of
from halfhitch.client.values import Check, Message
from halfhitch.service import reasons as kept

CHECK = Check(
    "t1",
    "orders",
    "h",
    1,
    15,
    6.0,
    (
        Message("orders", b'{"card": "4111-1111"}', b"customer-77", [("tenant", b"acme-corp")]),
        Message("points", None, b"ab"),
    ),
)


def told_of(text, kind=RuntimeError):
    return reason_of(kind(text), CHECK)


def test_it_is_as_long_as_what_the_sidecar_keeps():
    assert REASON_CHARS_MAX == kept.REASON_CHARS_MAX


def test_kind_and_first_line_are_told():
    assert told_of("db down\nand a long story") == "RuntimeError: db down"
    assert told_of("") == "RuntimeError"
    assert told_of("  \n  ", ValueError) == "ValueError"
    assert reason_of(ConnectionRefusedError(111, "Connection refused"), CHECK) == (
        "ConnectionRefusedError: [Errno 111] Connection refused"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "(sqlite3.OperationalError) no such table: orders\n[SQL: x]\n[parameters: ('s3cret')]",
            "(sqlite3.OperationalError) no such table: orders",
        ),
        ("boom [SQL: INSERT] [parameters: ('s3cret',)]", "boom"),
        ("boom [parameters: {'card': 's3cret'}] (Background on this error at: x)", "boom"),
        ('violates "x" DETAIL: Key (mail)=(s3cret@b.c) already exists.', 'violates "x"'),
        ('violates "x" Failing row contains (1, s3cret).', 'violates "x"'),
        ("query failed, params=('s3cret', 7)", "query failed,"),
        ("postgresql://shop:s3cret@db:5432/shop is away", "postgresql://***@db:5432/shop is away"),
        ("login: password=s3cret host=db", "login: password=*** host=db"),
        ("Authorization: Bearer s3cret refused", "Authorization: *** refused"),
        ("invalid literal for int() with base 10: 's3cret'", "invalid literal for int() with"),
        ('invalid input syntax for type integer: "s3cret"', "for type integer: ***"),
        ("Duplicate entry 's3cret' for key 'orders.id'", "Duplicate entry *** for key 'orders.id'"),
    ],
)
def test_no_parameters_and_no_secrets_are_told(text, told):
    reason = told_of(text)
    assert told in reason
    assert "s3cret" not in reason
    assert "4111" not in reason


def test_what_stands_in_the_messages_is_not_told():
    told = told_of('cannot read {"card": "4111-1111"} of customer-77 at acme-corp for ab')
    assert told == "RuntimeError: cannot read *** of *** at *** for ab"
    assert reason_of(KeyError("customer-9"), CHECK) == "KeyError"


def test_it_is_one_short_line_that_can_be_a_header():
    told = told_of("a\tb\rHalf-Token: x\x00\udc80 é " + "long " * 10_000)
    assert len(told) == REASON_CHARS_MAX
    assert told.endswith("...")
    assert told.isprintable()
    assert told.encode()


def test_an_exception_that_cannot_be_told_costs_nothing():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert "Odd" in reason_of(Odd(), CHECK)
