"""How our errors look to a RocketMQ client."""

import pytest

from halfhitch import errors
from halfhitch.doors.rocketmq.errors import NoPermission, response_of
from halfhitch.errors import HalfHitchError
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

#: What Java's producer repeats a message for.
REPEATED = {
    codes.SYSTEM_ERROR,
    codes.SYSTEM_BUSY,
    codes.SERVICE_NOT_AVAILABLE,
    codes.NO_PERMISSION,
    codes.TOPIC_NOT_EXIST,
}


@pytest.mark.parametrize(
    ("error", "code", "begins"),
    [
        (errors.UnknownTopic("no such"), codes.TOPIC_NOT_EXIST, "unknown_topic: no such"),
        (errors.Overloaded("full"), codes.SYSTEM_BUSY, "[OVERLOAD] overloaded: full"),
        (errors.KafkaUnavailable("away"), codes.SYSTEM_BUSY, "[REJECTREQUEST] kafka_unavailable"),
        (errors.OutcomeUnknown("who knows"), codes.SYSTEM_ERROR, "outcome_unknown: "),
        (NoPermission("sign it"), codes.NO_PERMISSION, "no_permission: sign it"),
        (RemotingError(77, "as it is"), 77, "as it is"),
    ],
)
def test_code_and_remark(error: HalfHitchError, code: int, begins: str) -> None:
    found, remark = response_of(error)
    assert found == code
    assert remark.startswith(begins)


def test_a_class_without_a_code_of_its_own_has_that_of_its_kind() -> None:
    class Special(errors.UnknownTopic):
        pass

    assert response_of(Special("x"))[0] == codes.TOPIC_NOT_EXIST


def test_a_reused_id_makes_no_client_repeat_the_message() -> None:
    assert response_of(errors.TransactionReused("used before"))[0] not in REPEATED


def test_a_remark_of_any_length_is_cut() -> None:
    assert len(response_of(errors.InvalidRequest("x" * 5_000))[1]) == 1_000
