"""Who may ask: requests signed with a secret that belongs to an access key."""

import pytest

from halfhitch.access import EVERYBODY, Access
from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.errors import NoPermission
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.requests import Frame
from halfhitch.wire.remoting.signature import sign
from harness.identities import access, bank, everybody


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


def signed(key: str, secret: str) -> Frame:
    fields = {"topic": "orders", "AccessKey": key}
    return asked(**fields, Signature=sign(fields, b"", secret))


@pytest.mark.parametrize("identities", [True, False])
def test_a_key_that_is_taken_away_opens_nothing_and_is_asked_nothing_more(
    identities: bool,
) -> None:
    """Its producers were still sent checks, with the messages of their group."""
    known = access() if identities else Access()
    control = AccessControl({"shop-key": "secret-of-shop"}, known)
    caller = control.check(signed("shop-key", "secret-of-shop"))
    assert caller.name == ("shop" if identities else None)
    grant = control.grant(caller, "shop")
    assert grant.name == caller.name
    assert grant.holds()
    control.replace({"shop-key": "secret-of-shop", "new-key": "secret-of-new"})
    assert grant.holds()
    if identities:
        known.replace([bank()])
        assert not grant.holds()
        known.replace(everybody())
        assert control.grant(caller, "shop").holds()
    control.replace({"shop-key": "another-secret"})
    assert not grant.holds()
    with pytest.raises(RemotingError):
        control.check(signed("shop-key", "secret-of-shop"))
    assert control.check(signed("shop-key", "another-secret")).name == caller.name
    control.replace({"new-key": "secret-of-new"})
    with pytest.raises(NoPermission, match="'shop-key' is not known here"):
        control.check(signed("shop-key", "another-secret"))


def test_without_a_lock_a_grant_holds_as_long_as_the_process() -> None:
    grant = AccessControl({}).grant(EVERYBODY, "shop")
    assert grant.holds()
    assert grant.name is None
