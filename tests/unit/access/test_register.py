"""Who is known: by token, by access key, and after a change."""

from __future__ import annotations

import pytest

from halfhitch.access import EVERYBODY, Access, Grant, Identity, Right, register
from halfhitch.access.identities import token_digest
from halfhitch.errors import Forbidden, TooManyRequests


def identity(
    name: str,
    *tokens: bytes,
    keys: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    **more: object,
) -> Identity:
    return Identity(
        name=name,
        rights=frozenset({Right.PRODUCE}),
        groups=groups or (name,),
        topics=("*",),
        token_hashes=tuple(token_digest(token) for token in tokens),
        access_keys=keys,
        **more,  # type: ignore[arg-type]
    )


def test_with_nothing_set_nothing_is_asked_for() -> None:
    access = Access()
    assert not access.asks_for_tokens
    assert access.by_access_key("any") is EVERYBODY
    assert access.by_token(b"any") is None


def test_shared_tokens_alone_may_do_everything_and_tell_nobody_apart() -> None:
    access = Access(tokens=[b"old", b"new"])
    assert access.asks_for_tokens
    for token in (b"old", b"new"):
        caller = access.by_token(token)
        assert caller is not None
        assert (caller.name, caller.is_free) == (None, True)
    assert access.by_token(b"") is None
    assert access.by_token(b"olD") is None
    assert access.by_access_key("any") is EVERYBODY


def test_shared_tokens_beside_identities_are_one_identity_with_all_rights() -> None:
    access = Access(tokens=[b"old"], identities=[identity("shop", b"shop-token")])
    shared, shop = access.by_token(b"old"), access.by_token(b"shop-token")
    assert shared is not None
    assert (shared.name, shared.is_free) == ("auth.tokens", True)
    assert shop is not None
    assert (shop.name, shop.is_free) == ("shop", False)


def test_an_identity_with_several_tokens_is_the_same_by_each() -> None:
    access = Access(identities=[identity("shop", b"one", b"two"), identity("bank", b"three")])
    names = [caller and caller.name for caller in map(access.by_token, (b"one", b"two", b"three"))]
    assert names == ["shop", "shop", "bank"]


def test_with_identities_an_access_key_of_nobody_lets_nobody_in() -> None:
    access = Access(identities=[identity("shop", b"one", keys=("shop-key",))])
    found = access.by_access_key("shop-key")
    assert found is not None
    assert found.name == "shop"
    assert access.by_access_key("other") is None
    assert access.by_access_key("one") is None, "a token is no access key"
    assert access.by_token(b"shop-key") is None


def test_a_change_takes_tokens_away_and_gives_rights() -> None:
    access = Access(identities=[identity("shop", b"one", b"two")])
    first, second = access.by_token(b"one"), access.by_token(b"two")
    assert first is not None
    assert second is not None
    access.is_file_broken = True
    access.replace([identity("shop", b"two"), identity("bank", b"three")])
    assert access.generation == 1
    assert access.by_token(b"one") is None
    assert access.renewed(first) is None
    renewed = access.renewed(second)
    assert renewed is not None
    assert renewed.name == "shop"
    assert access.renewed(EVERYBODY) is EVERYBODY
    numbers = access.numbers()
    assert (numbers.identity_count, numbers.is_file_broken) == (2, False)


def test_refusals_are_counted_and_told() -> None:
    told: list[tuple[str, Right]] = []
    access = Access(
        identities=[identity("shop", b"one")], on_forbidden=lambda *what: told.append(what)
    )
    caller = access.by_token(b"one")
    assert caller is not None
    for _ in range(2):
        with pytest.raises(Forbidden):
            caller.require(Right.PRODUCE, "bank")
    access.unauthorized("http")
    numbers = access.numbers()
    access.unauthorized("http")
    assert numbers.forbidden == {("shop", "produce"): 2}
    assert numbers.unauthorized == {"http": 1}
    assert told == [("shop", Right.PRODUCE)] * 2


def test_a_grant_lasts_as_long_as_its_proof_and_its_right() -> None:
    access = Access(identities=[identity("shop", b"one", b"two")])
    callers = [access.by_token(b"one"), access.by_token(b"two")]
    assert None not in callers
    first, second = (Grant(access, caller, Right.PRODUCE, "shop") for caller in callers if caller)
    assert first.holds()
    assert second.holds()
    access.replace([identity("shop", b"two")])
    assert (first.holds(), second.holds()) == (False, True)
    assert not first.holds(), "it does not come back by being asked again"
    access.replace([identity("bank", b"two")])
    assert not second.holds()
    assert Grant(Access(), EVERYBODY, Right.CHECK, "any").holds()


def test_a_certificate_is_a_proof_by_any_of_its_names_and_by_whole_ones() -> None:
    shop = identity("shop", b"one", certificates=("CN:orders", "DNS:orders.svc"))
    bank = identity("bank", b"two", certificates=("DNS:bank.svc",))
    access = Access(identities=[shop, bank])
    for names in (("CN:orders",), ("DNS:other", "DNS:orders.svc"), ("CN:orders", "DNS:orders.svc")):
        found = access.by_certificate(names)
        assert found is not None
        assert found.name == "shop"
        assert access.renewed(found) is found
    for names in ((), ("DNS:orders",), ("DNS:orders.svc.evil",), ("CN:orders.svc",)):
        assert access.by_certificate(names) is None
    assert access.by_certificate(("DNS:orders.svc", "DNS:bank.svc")) is None, "of two"
    assert access.by_token(b"CN:orders") is None
    assert access.by_access_key("CN:orders") is None


def test_whose_a_group_is_goes_by_the_right_to_produce_for_it() -> None:
    watcher = Identity(name="watcher", rights=frozenset({Right.OBSERVE}), groups=("*",))
    root = Identity(name="root", rights=frozenset({Right.ADMIN}))
    access = Access(tokens=[b"old"], identities=[identity("shop", b"shop-token"), watcher, root])
    assert (access.team_of("shop"), access.team_of("shop-2")) == ("shop", None)
    both = [identity("shop", b"shop-token"), identity("bank", groups=("bank-*", "shop"))]
    access.replace(both)
    assert access.team_of("shop") == "bank, shop", "who share a group are one team"
    assert access.team_of("bank-7") == access.team_of("bank-8") == "bank"
    assert Access().team_of("shop") is None


def test_names_of_groups_without_end_are_not_all_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(register, "_TEAMS_REMEMBERED_MAX", 3)
    access = Access(identities=[identity("bank", groups=("bank-*",))])
    for number in range(10):
        assert access.team_of(f"bank-{number}") == "bank"
        assert len(access._teams) <= 3


def test_all_proofs_of_an_identity_have_one_allowance_and_others_have_theirs() -> None:
    known = [
        identity("shop", b"one", b"two", keys=("k",)),
        identity("bank", b"three", requests_s_max=7),
    ]
    access = Access(tokens=[b"all"], identities=known, requests_s_max=5)
    one, two, key = access.by_token(b"one"), access.by_token(b"two"), access.by_access_key("k")
    bank, shared = access.by_token(b"three"), access.by_token(b"all")
    assert one is not None
    assert two is not None
    assert key is not None
    assert one.allowance is two.allowance is key.allowance is not None
    assert one.allowance.requests_s_max == 5
    assert bank is not None
    assert bank.allowance is not None
    assert bank.allowance.requests_s_max == 7
    assert shared is not None
    assert shared.allowance is None
    assert EVERYBODY.allowance is None


def test_without_a_number_nobody_is_counted() -> None:
    caller = Access(identities=[identity("shop", b"one")]).by_token(b"one")
    assert caller is not None
    assert caller.allowance is None


def test_a_file_that_is_read_again_does_not_give_a_second_of_requests_again() -> None:
    """Else whoever makes it change, or a watch that is nervous, lifts the bound."""
    told: list[str] = []
    access = Access(
        identities=[identity("shop", b"one")], requests_s_max=1, on_too_many=told.append
    )

    def ask() -> None:
        caller = access.by_token(b"one")
        assert caller is not None
        assert caller.allowance is not None
        caller.allowance.take(0.0)

    ask()
    access.replace([identity("shop", b"one"), identity("bank", b"two")])
    with pytest.raises(TooManyRequests):
        ask()
    access.replace([identity("shop", b"one", requests_s_max=1_000)])
    with pytest.raises(TooManyRequests):
        ask()
    assert told == ["shop", "shop"]
    assert access.numbers().too_many == {"shop": 2}
