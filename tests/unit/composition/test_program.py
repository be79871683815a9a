"""What the program does before it opens a door."""

from __future__ import annotations

import pytest

from halfhitch.composition import program
from halfhitch.config import load

GOOD: dict[str, object] = {"kafka.bootstrap": "k:1", "handle.key": "k" * 32}


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({"http.connections_max": 100}, 740),
        ({"http.connections_max": 100, "rocketmq.enabled": True}, 2788),
        ({"http.connections_max": 100, "http.tls_cert": "c.pem"}, 804),
        ({"http.connections_max": 1000, "http.tls_cert": "c.pem", "admin.tls_cert": "c.pem"}, 1954),
    ],
)
def test_it_asks_for_as_many_files_as_its_doors_take_connections(
    flags: dict[str, object],
    wanted: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = load({**GOOD, **flags})
    asked: list[int] = []
    monkeypatch.setattr(program, "have_descriptors", lambda n: asked.append(n) or n)
    assert program._with_files_for_connections(settings) is settings
    assert (asked, caplog.messages) == ([wanted], [])


@pytest.mark.parametrize("file_count", [256, 512, 1_024, 4_000])
@pytest.mark.parametrize("is_rocketmq", [True, False])
def test_with_fewer_files_the_doors_take_fewer_connections_and_probes_keep_theirs(
    file_count: int,
    is_rocketmq: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = load({**GOOD, "rocketmq.enabled": is_rocketmq})
    monkeypatch.setattr(program, "have_descriptors", lambda _: file_count)
    fitting = program._with_files_for_connections(settings)
    copies = 2 * fitting.rocketmq.connections_max if is_rocketmq else 0
    left = file_count - fitting.http.connections_max - copies
    assert left >= program.ADMIN_LIMITS.connection_count_max + file_count // 8
    assert fitting.http.connections_max >= 32
    (said,) = caplog.messages
    named = (str(file_count), "ulimit -n", "http.connections_max is taken as")
    assert all(word in said for word in named)


def test_with_hardly_any_files_it_does_not_start_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 160 it took connections, and probes among them, and closed them without a word."""
    monkeypatch.setattr(program, "have_descriptors", lambda _: 160)
    monkeypatch.setattr(program.log_setup, "set_up", lambda **_: None)
    assert program.run(load(GOOD)) == 1
    said = capsys.readouterr().err
    assert all(word in said for word in ("160 files", "http.connections_max", "LimitNOFILE="))


@pytest.mark.parametrize(
    ("flags", "is_said"),
    [
        ({"kafka.verify_host_names": False, "kafka.options": {"security.protocol": "SSL"}}, True),
        ({"kafka.verify_host_names": False}, False),  # there is no certificate
        ({"kafka.options": {"security.protocol": "SSL"}}, False),
    ],
)
def test_each_start_says_that_brokers_may_have_any_name(
    flags: dict[str, object], is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/tls.md said that it does, and nothing did."""
    program._say_who_is_trusted(load({**GOOD, **flags}), asks_for_tokens=True)
    said = [record.action for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["kafka_hosts_unverified"] * is_said
