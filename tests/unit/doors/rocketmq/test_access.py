"""Who may ask: requests signed with a secret that belongs to an access key."""

import pytest

from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.errors import NoPermission
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.requests import Frame


def asked(**fields: str) -> Frame:
    return request(105, 1, fields)


def test_without_keys_nothing_is_looked_at() -> None:
    assert not AccessControl({}).is_on
    assert AccessControl({"shop": "secret-of-shop"}).is_on


def test_a_request_without_a_signature_or_with_an_unknown_key_is_refused() -> None:
    access = AccessControl({"shop": "secret-of-shop"})
    with pytest.raises(NoPermission, match="AclClientRPCHook"):
        access.check(asked(topic="orders"))
    with pytest.raises(NoPermission, match="'stranger' is not known here"):
        access.check(asked(topic="orders", AccessKey="stranger", Signature="x"))


def test_a_wrong_signature_is_refused_and_its_secret_not_repeated() -> None:
    with pytest.raises((NoPermission, RemotingError)) as refused:
        AccessControl({"shop": "secret-of-shop"}).check(
            asked(topic="orders", AccessKey="shop", Signature="AAAA")
        )
    assert "secret-of-shop" not in str(refused.value)
