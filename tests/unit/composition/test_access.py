"""Identities out of the settings, and their file when it changes."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from halfhitch.access import Right, token_hash
from halfhitch.composition import access as module
from halfhitch.composition.access import AccessKeysWatch, IdentitiesWatch, access_of
from halfhitch.config import load
from halfhitch.config.identities import known_access_keys, shared_token_hashes
from halfhitch.errors import ConfigurationError, Forbidden, TooManyRequests

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.access import Access

GOOD: dict[str, object] = {"kafka.bootstrap": "k:1", "handle.key": "k" * 32}


def text_of(name: str, token: str) -> str:
    return (
        f'[identities.{name}]\nroles = ["check"]\ngroups = ["{name}"]\n'
        f'tokens = ["{token_hash(token)}"]\n'
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "identities.toml"
    found.write_text(text_of("shop", "one"))
    return found


def access_for(path: Path, **more: object) -> Access:
    return access_of(load({**GOOD, "auth.identities_file": path, **more}))


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def looked(watch: IdentitiesWatch) -> None:
    """Twice: a file is taken once it stands still."""
    await watch.look()
    await watch.look()


def test_what_the_settings_say(path: Path) -> None:
    assert not access_of(load(GOOD)).asks_for_tokens
    assert access_of(load({**GOOD, "auth.tokens": "t" * 16})).asks_for_tokens
    access = access_for(path, **{"auth.tokens": "t" * 16})
    shop, shared = access.by_token(b"one"), access.by_token(b"t" * 16)
    assert shop is not None
    assert shared is not None
    assert (shop.name, shared.name) == ("shop", "auth.tokens")


def test_refusals_are_told_in_the_log_and_do_not_fill_it(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caller = access_for(path).by_token(b"one")
    assert caller is not None
    for _ in range(50):
        with pytest.raises(Forbidden):
            caller.require(Right.CHECK, "bank")
    assert len(caplog.messages) == 10
    assert "identity shop was refused" in caplog.messages[0]


def test_requests_that_are_too_many_are_told_in_the_log_and_do_not_fill_it(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caller = access_for(path, **{"limits.requests_s_identity_max": 1}).by_token(b"one")
    assert caller is not None
    assert caller.allowance is not None
    caller.allowance.take(0.0)
    for _ in range(50):
        with pytest.raises(TooManyRequests):
            caller.allowance.take(0.0)
    assert len(caplog.messages) == 10
    assert "identity shop was refused a request" in caplog.messages[0]


async def test_a_changed_number_of_requests_counts_without_a_restart(path: Path) -> None:
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    for number in (7, 9):
        write(path, text_of("shop", "one") + f"requests_s_max = {number}\n")
        await looked(watch)
        caller = access.by_token(b"one")
        assert caller is not None
        assert caller.allowance is not None
        assert caller.allowance.requests_s_max == number


async def test_a_changed_file_counts_without_a_restart(path: Path) -> None:
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    await looked(watch)
    generation = access.generation
    await looked(watch)
    assert access.generation == generation, "nothing has changed"
    write(path, text_of("bank", "two"))
    await looked(watch)
    assert access.by_token(b"one") is None
    assert access.by_token(b"two") is not None


async def test_a_disk_that_hangs_keeps_no_one_else_from_his_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    entered, released = threading.Event(), threading.Event()

    def hanging(_: Path) -> None:
        entered.set()
        assert released.wait(20)

    watch = IdentitiesWatch(access_for(path), path)
    monkeypatch.setattr(module, "state_of", hanging)
    look = asyncio.create_task(watch.look())
    await asyncio.sleep(0)
    try:
        assert entered.wait(20)
        assert await asyncio.wait_for(asyncio.to_thread(int), 20) == 0
    finally:
        released.set()
    await look
    watch.stop()


async def test_a_broken_file_changes_nothing_but_a_warning(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    await looked(watch)
    write(path, "[identities.shop]\nroles = 3\n")
    await looked(watch)
    await looked(watch)
    assert access.by_token(b"one") is not None
    assert access.numbers().is_file_broken
    [warning] = [message for message in caplog.messages if "not taken" in message]
    assert "line 2: identity 'shop'" in warning
    write(path, text_of("shop", "three"))
    await looked(watch)
    assert not access.numbers().is_file_broken
    assert access.by_token(b"three") is not None


async def test_a_file_that_is_taken_away_lets_nobody_in_or_out(path: Path) -> None:
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    os.unlink(path)  # noqa: PTH108
    await looked(watch)
    assert access.by_token(b"one") is not None
    assert access.numbers().is_file_broken


async def test_a_file_that_is_being_written_is_not_taken_half(path: Path) -> None:
    """The first half of a file is good TOML too: with it, half of the teams would be shut out."""
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    await looked(watch)
    write(path, text_of("bank", "two"))
    await watch.look()
    assert access.by_token(b"one") is not None
    write(path, text_of("bank", "two") + text_of("shop", "one"))
    await looked(watch)
    assert access.by_token(b"one") is not None
    assert access.by_token(b"two") is not None


async def test_a_link_that_leads_elsewhere_is_a_change(path: Path) -> None:
    """So Kubernetes replaces the files of a volume."""
    other = path.with_name("other.toml")
    write(other, text_of("bank", "two"))
    stamp = os.stat(path)  # noqa: PTH116
    os.utime(other, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    link = path.with_name("link.toml")
    os.symlink(path, link)  # noqa: PTH211
    access = access_for(link)
    watch = IdentitiesWatch(access, link)
    await looked(watch)
    os.unlink(link)  # noqa: PTH108
    os.symlink(other, link)  # noqa: PTH211
    await looked(watch)
    assert access.by_token(b"two") is not None


async def test_the_watch_itself_sees_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(module, "_LOOK_S", 0.001)
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    watch.start()
    write(path, text_of("bank", "two"))
    async with asyncio.timeout(10):
        while access.by_token(b"two") is None:
            await asyncio.sleep(0.001)
    watch.stop()


def test_a_start_with_a_broken_file_is_refused(path: Path) -> None:
    write(path, "[identities.shop]\n")
    with pytest.raises(ConfigurationError, match="'shop' has no roles"):
        load({**GOOD, "auth.identities_file": path})


async def test_a_change_that_names_a_key_without_a_secret_is_not_taken(path: Path) -> None:
    keys: dict[str, object] = {
        "rocketmq.enabled": True,
        "rocketmq.access_keys": "shop-key:secret-secret",
    }
    settings = load({**GOOD, **keys, "auth.identities_file": path})
    access = access_of(settings)
    watch = IdentitiesWatch(access, path, known_access_keys(settings))
    write(path, text_of("shop", "two") + 'access_keys = ["other-key"]\n')
    await looked(watch)
    assert access.numbers().is_file_broken
    write(path, text_of("shop", "two") + 'access_keys = ["shop-key"]\n')
    await looked(watch)
    assert access.by_access_key("shop-key") is not None


async def test_a_token_that_is_a_shared_one_too_is_refused_at_start_and_at_a_change(
    path: Path,
) -> None:
    """Who takes it out of the file means to shut it out, and would give it all rights."""
    both: dict[str, object] = {"auth.identities_file": path, "auth.tokens": "t" * 16}
    settings = load({**GOOD, **both})
    access = access_of(settings)
    watch = IdentitiesWatch(access, path, None, shared_token_hashes(settings))
    await looked(watch)
    write(path, text_of("shop", "t" * 16))
    await looked(watch)
    assert access.numbers().is_file_broken
    caller = access.by_token(b"t" * 16)
    assert caller is not None
    assert caller.name == "auth.tokens"
    with pytest.raises(ConfigurationError, match=r"one of auth\.tokens too"):
        load({**GOOD, **both})
    with pytest.raises(ConfigurationError, match=r"one of auth\.tokens too"):
        access_of(settings)


async def test_a_file_that_came_with_wrong_rights_is_taken_once_they_are_right(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rights that lie in a folder above change nothing of the file, not even its ctime."""
    access = access_for(path)
    watch = IdentitiesWatch(access, path)
    await looked(watch)
    write(path, text_of("bank", "two"))

    def refused(*_: object) -> None:
        raise ConfigurationError("cannot be read: Permission denied")

    with monkeypatch.context() as closed:
        closed.setattr(module, "read_identities_file", refused)
        await looked(watch)
        await looked(watch)
        assert access.numbers().is_file_broken
        assert len(re.findall("not taken", caplog.text)) == 1
    await looked(watch)
    assert access.by_token(b"two") is not None
    assert not access.numbers().is_file_broken


def test_rights_that_are_changed_are_a_change(path: Path) -> None:
    before = module.state_of(path)
    changed_ns = os.stat(path).st_ctime_ns  # noqa: PTH116
    while os.stat(path).st_ctime_ns == changed_ns:  # noqa: PTH116 - the clock of files is coarse
        os.chmod(path, 0o640)  # noqa: PTH101
    assert module.state_of(path) != before


async def test_any_error_of_a_file_makes_it_a_broken_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = access_for(path)
    watch = IdentitiesWatch(access, path)

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "read_identities_file", fails)
    await watch.look()
    with pytest.raises(ZeroDivisionError):
        await watch.look()
    assert access.numbers().is_file_broken


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    found = tmp_path / "access-keys"
    found.write_text("shop-key:secret-of-shop\n")
    return found


async def test_access_keys_that_change_count_without_a_restart(
    keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They were read once, at the start: a key that was taken away went on for days."""
    taken: list[dict[str, str]] = []
    watch = AccessKeysWatch(keys, lambda found: taken.append(dict(found)))
    with caplog.at_level("INFO"):
        await looked(watch)
        await looked(watch)
        write(keys, "shop-key:secret-of-shop\nbank-key:secret-of-bank\n")
        await looked(watch)
        write(keys, "bank-key:secret-of-bank\n")
        await looked(watch)
    assert [list(found) for found in taken] == [
        ["shop-key"],
        ["shop-key", "bank-key"],
        ["bank-key"],
    ]
    assert "1 access keys are known now: bank-key" in caplog.text
    assert "secret-of" not in caplog.text


@pytest.mark.parametrize(
    ("text", "words"), [("", "is empty"), ("shop-key:short\n", "at least 8 bytes"), (None, "read")]
)
async def test_access_keys_that_cannot_be_read_change_nothing_but_a_warning(
    keys: Path, caplog: pytest.LogCaptureFixture, text: str | None, words: str
) -> None:
    taken: list[dict[str, str]] = []
    watch = AccessKeysWatch(keys, lambda found: taken.append(dict(found)))
    await looked(watch)
    if text is None:
        os.unlink(keys)  # noqa: PTH108
    else:
        write(keys, text)
    await looked(watch)
    await looked(watch)
    assert taken == [{"shop-key": "secret-of-shop"}]
    [warning] = [message for message in caplog.messages if "not taken" in message]
    assert words in warning
    assert "shop-key:short" not in warning
    write(keys, "new-key:secret-of-new\n")
    await looked(watch)
    assert taken[1:] == [{"new-key": "secret-of-new"}]


async def test_identities_may_name_a_key_as_soon_as_it_is_there(path: Path, keys: Path) -> None:
    more: dict[str, object] = {"rocketmq.enabled": True, "rocketmq.access_key_file": keys}
    settings = load({**GOOD, **more, "auth.identities_file": path})
    access = access_of(settings)
    watch = IdentitiesWatch(access, path, known_access_keys(settings))
    key_watch = AccessKeysWatch(keys, lambda found: watch.keys_are(found.keys()))
    await looked(watch)
    write(path, text_of("shop", "two") + 'access_keys = ["new-key"]\n')
    await looked(watch)
    assert access.numbers().is_file_broken
    write(keys, "new-key:secret-of-new\n")
    await looked(key_watch)
    await looked(watch)
    assert not access.numbers().is_file_broken
    caller = access.by_access_key("new-key")
    assert caller is not None
    assert caller.name == "shop"
