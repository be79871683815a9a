"""How a token is kept."""

from hashlib import sha256

from halfhitch.access.identities import token_digest, token_hash


def test_a_token_is_kept_as_its_hash_which_does_not_give_it_away() -> None:
    assert token_digest(b"s3cret") == sha256(b"s3cret").digest()
    assert token_hash("s3cret") == "sha256:" + sha256(b"s3cret").hexdigest()
    assert "s3cret" not in token_hash("s3cret")
