"""The values of the client."""

from halfhitch.client.values import Check, CheckedMessage, Message

CHECK = Check(
    transaction_id="T1",
    producer_group="shop",
    handle="H",
    number=2,
    number_max=15,
    age_s=7.5,
    messages=(Message("orders", b"v", b"k"),),
    born_ms=17,
)


def test_a_checked_message_knows_its_check() -> None:
    message = CheckedMessage.of(CHECK)
    assert (message.topic, message.value, message.key) == ("orders", b"v", b"k")
    assert (message.producer_group, message.age_s, message.born_ms) == ("shop", 7.5, 17)
    assert message.check.transaction_id == "T1"
