"""A producer that cannot work is told when it is made."""

import math

import pytest

from halfhitch import errors
from halfhitch.client import Message, TransactionProducer
from halfhitch.client.address import find_address
from halfhitch.client.options import check_check, check_limits, check_on_error, require_listener


def test_a_producer_without_sense_is_refused():
    check_limits(0.1, 1, 1)
    for deadline_s in (0, -1, math.nan, math.inf, "10", None, True):
        with pytest.raises(errors.ConfigurationError, match="deadline_s"):
            check_limits(deadline_s, 1, 1)
    for count in (0, -1, 2.5, "8", None, True):
        with pytest.raises(errors.ConfigurationError, match="connections_max"):
            check_limits(1, count, 1)
        with pytest.raises(errors.ConfigurationError, match="answers_checks=False"):
            check_limits(1, 1, count)


def test_half_a_connection_was_taken_and_failed_when_all_were_in_use():
    with pytest.raises(errors.ConfigurationError, match=r"connections_max is 2\.5"):
        TransactionProducer("orders", connections_max=2.5)


def test_an_address_that_is_a_port_is_told():
    with pytest.raises(errors.ConfigurationError, match=r"address is 8340.*no text.*http://127"):
        find_address(8340)


def test_a_missing_listener_is_told():
    with pytest.raises(errors.InvalidRequest, match="listener="):
        require_listener(None)


def test_a_listener_without_a_local_transaction_had_its_message_stored():
    """It was invisible, and waited for a check that nobody could answer."""
    producer = TransactionProducer("orders", "http://127.0.0.1:9", listener=object())
    with pytest.raises(errors.InvalidRequest, match="no listener with execute_local_transaction"):
        producer.send_message_in_transaction(Message("orders", b"v"))


def test_what_cannot_be_called_is_no_check():
    with pytest.raises(errors.ConfigurationError, match=r"cannot be called.*without brackets"):
        check_check(7, None, is_awaited=True)
    check_check(None, None, is_awaited=False)


def test_what_an_exception_does_is_one_of_two():
    check_on_error(None)
    with pytest.raises(errors.ConfigurationError, match="'boom'"):
        check_on_error("boom")
