"""The file of identities: what it says, and the sentence for each way to get it wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from halfhitch.access import Right, token_hash
from halfhitch.access.identities import token_digest
from halfhitch.access.reading import read_identities
from halfhitch.errors import ConfigurationError

HASH = token_hash("s3cret")
GOOD = f"""# Teams
[identities.shop]
roles = ["produce", "check"]
groups = ["shop", "shop-*"]
topics = ["orders"]
tokens = ["{HASH}"]
access_keys = ["shop-key"]

[identities."ann@example.com"]
roles = ["operate"]
groups = ["*"]
tokens = ["{token_hash("ann")}", "{token_hash("ann next")}"]

[identities.root]
roles = ["admin"]
tokens = ["{token_hash("root")}"]
"""


def test_what_it_says() -> None:
    shop, ann, root = read_identities(GOOD, "f")
    assert (shop.name, shop.rights) == ("shop", {Right.PRODUCE, Right.CHECK})
    assert (shop.groups, shop.topics) == (("shop", "shop-*"), ("orders",))
    assert (shop.token_hashes, shop.access_keys) == ((token_digest(b"s3cret"),), ("shop-key",))
    assert (ann.name, len(ann.token_hashes)) == ("ann@example.com", 2)
    assert root.rights == {Right.ADMIN}


def test_an_identity_may_have_a_number_of_requests_of_its_own() -> None:
    [shop] = read_identities(table(requests_s_max="500"), "f")
    assert shop.requests_s_max == 500
    assert read_identities(table(), "f")[0].requests_s_max == 0


def table(**lines: str) -> str:
    values = {
        "roles": '["produce"]',
        "groups": '["shop"]',
        "topics": '["orders"]',
        "tokens": f'["{HASH}"]',
        **lines,
    }
    return "# x\n[identities.shop]\n" + "".join(
        f"{key} = {value}\n" for key, value in values.items() if value
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, ("has no identity", "[identities.NAME]")),
        ("identities = 3", None, ("has no identity",)),
        ("\n\n[teams.shop]\n", 3, ("'teams'", "[identities.NAME]")),
        ("\n[identities]\nshop = 3\n", 1, ("'shop'", "must be a table")),
        (table(role='["check"]'), 7, ("'shop'", "'role'", "did you mean roles?")),
        (table(colour='"red"'), 7, ("'colour'", "there are roles, groups")),
        (table(roles='["producer"]'), 3, ("'producer'", "did you mean produce?")),
        (table(roles='["x"]'), 3, ("'x'", "there are produce, check, observe, operate, admin")),
        (table(roles='"produce"'), 3, ("list of texts",)),
        (table(roles="[]"), 3, ("empty list",)),
        (table(roles=""), 2, ("has no roles",)),
        (table(roles='["admin", "check"]'), 3, ("admin has all rights already",)),
        (table(roles='["admin"]', topics=""), 4, ("has groups", "admin")),
        (table(roles='["check"]'), 5, ("topics without the role produce",)),
        (table(roles='["check"]', topics="", groups=""), 2, ("names no producer groups",)),
        (table(topics=""), 2, ("to no topic",)),
        (table(groups='["shop", ""]'), 4, ("list of texts",)),
        (table(groups='["shop", "shop"]'), 4, ("twice",)),
        (table(groups='["shop "]'), 4, ("list of texts",)),
        (table(groups=str([f"g{n}" for n in range(101)])), 4, ("at most 100",)),
        (table(tokens=""), 2, ("cannot prove itself", "halfhitch token")),
        (table(certificates='["orders.svc"]'), 7, ("without its kind", "DNS:orders.shop.svc")),
        (table(requests_s_max='"5"'), 7, ("whole number", "requests_s_identity_max")),
        (table(requests_s_max="-1"), 7, ("whole number",)),
        (table(requests_s_max="true"), 7, ("whole number",)),
        (table(requests_s_max="1.5"), 7, ("whole number",)),
        (table(requests_s_max="1000001"), 7, ("at most 1000000",)),
        (table(requests_max="5"), 7, ("did you mean requests_s_max?",)),
        (table(tokens='["pasted-token"]'), 6, ("not sha256:", "halfhitch token")),
        (table(tokens=f'["{HASH.upper()}"]'), 6, ("not sha256:",)),
        ('[identities."a b"]\n' + table().split("\n", 2)[2], 1, ("'a b'", "cannot be called")),
        (table().replace("shop]", '"auth.tokens"]'), 2, ("cannot be called so",)),
        (table() + table().replace("# x\n[identities.shop]", "[identities.b]"), 11, ("'shop'",)),
    ],
)
def test_what_is_wrong_is_told_with_line_identity_and_remedy(
    text: str, line: int | None, words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_identities(text, "teams.toml")
    said = caught.value.message
    assert said.startswith("teams.toml")
    if line is not None:
        assert f", line {line}: " in said, said
    assert all(word in said for word in words), said
    assert "pasted-token" not in said


def test_what_is_no_toml_is_told_with_its_line_and_nothing_of_it() -> None:
    with pytest.raises(ConfigurationError, match=r"teams.toml is not TOML: .*line 2"):
        read_identities("[identities.shop]\ntokens = [s3cret", "teams.toml")


@pytest.mark.parametrize("value", ["1" * 5_000, "[" * 5_000 + "]" * 5_000])
def test_a_file_that_is_too_much_for_its_reader_is_a_broken_one(value: str) -> None:
    """Any other error would pass by whoever counts files that are broken."""
    with pytest.raises(ConfigurationError, match=r"teams.toml cannot be read: it has a number"):
        read_identities(f"[identities.shop]\nroles = {value}\n", "teams.toml")


def test_a_token_of_an_identity_that_is_a_shared_one_too_is_refused() -> None:
    """Taken out of the file it would be worth everything, not nothing."""
    shared = {token_digest(b"s3cret")}
    with pytest.raises(ConfigurationError) as caught:
        read_identities(GOOD, "teams.toml", shared_hashes=shared)
    said = caught.value.message
    assert said.startswith("teams.toml, line 6: identity 'shop' has a token that is one of auth.")
    assert len(read_identities(GOOD, "teams.toml", shared_hashes={token_digest(b"else")})) == 3


def test_an_identity_twice_is_refused_instead_of_the_last_one_taken() -> None:
    with pytest.raises(ConfigurationError, match="not TOML"):
        read_identities(table() + table(), "teams.toml")


def test_the_file_in_the_documentation_works_as_pasted() -> None:
    page = (Path(__file__).parents[3] / "docs" / "identities.md").read_text()
    [text] = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names = [identity.name for identity in read_identities(text, "docs")]
    assert names == ["shop", "points", "ann", "prometheus"]
    for right in Right:
        assert f"| `{right.value}` |" in page
