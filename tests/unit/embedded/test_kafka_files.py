"""The embedded Kafka's folder and settings: formatted once, one owner, the user's word is last."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from halfhitch.embedded import EmbeddedError, EmbeddedKafka, kafka_client, kafka_files
from halfhitch.embedded.java import Java
from halfhitch.embedded.kafka_files import NodePlan


def plan(folder, *, brokers=1, broker_id=1, proxy_ports=None):
    voters = {i: 9100 + i for i in range(1, brokers + 1)}
    return NodePlan(broker_id, folder, 9000 + broker_id, voters, proxy_ports)


def test_one_broker_asks_for_no_replica_that_cannot_be(tmp_path):
    made = kafka_files.properties(plan(tmp_path), {})
    assert {value for name, value in made.items() if "replication.factor" in name} == {"1"}
    assert {value for name, value in made.items() if "min.i" in name} == {"1"}
    assert made["controller.quorum.voters"] == "1@127.0.0.1:9101"
    assert made["auto.create.topics.enable"] == "false"


def test_three_brokers_keep_three_replicas_with_two_in_sync(tmp_path):
    made = kafka_files.properties(plan(tmp_path, brokers=3, broker_id=2), {})
    assert {value for name, value in made.items() if "replication.factor" in name} == {"3"}
    assert {value for name, value in made.items() if "min.i" in name} == {"2"}
    assert made["controller.quorum.voters"] == "1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103"
    assert made["listeners"] == "PLAINTEXT://127.0.0.1:9002,CONTROLLER://127.0.0.1:9102"


def test_a_proxy_listener_is_bound_at_one_port_and_advertised_at_the_other(tmp_path):
    made = kafka_files.properties(plan(tmp_path, proxy_ports=(9201, 9301)), {})
    assert made["listeners"].endswith("PROXY://127.0.0.1:9201")
    assert made["advertised.listeners"].endswith("PROXY://127.0.0.1:9301")
    assert "PROXY:PLAINTEXT" in made["listener.security.protocol.map"]
    assert made["inter.broker.listener.name"] == "PLAINTEXT"


def test_given_properties_have_the_last_word(tmp_path):
    made = kafka_files.properties(plan(tmp_path), {"num.partitions": "7", "log.roll.ms": "1"})
    assert (made["num.partitions"], made["log.roll.ms"]) == ("7", "1")


def test_a_path_with_any_letters_survives_the_properties_file(tmp_path):
    folder = tmp_path / "Prüfung \\ 😀"
    kafka_files.write_properties(plan(folder), {})
    raw = (folder / "server.properties").read_bytes()
    assert raw.isascii()
    line = next(one for one in raw.decode().splitlines() if one.startswith("log.dirs="))
    value = line.removeprefix("log.dirs=").replace("\\\\", "\\u005c")
    decoded = value.encode().decode("unicode_escape").encode("utf-16", "surrogatepass")
    assert decoded.decode("utf-16") == str(folder / "data")


def test_a_path_that_kafka_would_split_is_refused(tmp_path):
    with pytest.raises(EmbeddedError, match="comma"):
        kafka_files.write_properties(plan(tmp_path / "a,b"), {})


def test_a_node_gets_its_identity_once(tmp_path):
    kafka_files.write_identity(tmp_path, 2, "first", b"features")
    before = (tmp_path / "data" / "meta.properties").read_text()
    assert "cluster.id=first\nnode.id=2\n" in before
    kafka_files.write_identity(tmp_path, 2, "second", b"other")
    assert (tmp_path / "data" / "meta.properties").read_text() == before
    assert (tmp_path / "data" / "bootstrap.checkpoint").read_bytes() == b"features"


def test_a_folder_remembers_its_cluster_and_refuses_another_size(tmp_path):
    made = kafka_files.ensure_cluster(tmp_path, 3)
    assert kafka_files.ensure_cluster(tmp_path, 3) == made
    with pytest.raises(EmbeddedError, match=r"3 broker\(s\), and 1 were asked for"):
        kafka_files.ensure_cluster(tmp_path, 1)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cluster_id": "x"}'])
def test_a_folder_with_a_broken_memory_is_not_taken_for_a_new_one(tmp_path, content):
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(EmbeddedError, match="does not describe an embedded Kafka"):
        kafka_files.ensure_cluster(tmp_path, 1)


def test_ids_have_the_form_that_kafka_reads():
    made = {kafka_files.new_id() for _ in range(500)}
    assert len(made) == 500
    assert all(len(one) == 22 and not one.startswith("-") for one in made)


def test_a_folder_has_one_owner_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_files, "_CLAIM_S", 0.0)
    claim = kafka_files.FolderClaim(tmp_path)
    with pytest.raises(EmbeddedError, match="used by another embedded Kafka"):
        kafka_files.FolderClaim(tmp_path)
    claim.release()
    kafka_files.FolderClaim(tmp_path).release()


def test_a_claim_lasts_as_long_as_a_server_that_inherited_it(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_files, "_CLAIM_S", 0.0)
    claim = kafka_files.FolderClaim(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[claim.descriptor]
    ) as server:
        claim.release()
        with pytest.raises(EmbeddedError):
            kafka_files.FolderClaim(tmp_path)
        server.communicate(b"\n", timeout=20)
    kafka_files.FolderClaim(tmp_path).release()


def test_a_log_is_put_aside_when_it_has_grown_too_long(tmp_path):
    log = tmp_path / "server.log"
    kafka_files.rotate_log(log)
    log.write_bytes(b"short")
    kafka_files.rotate_log(log)
    assert log.read_bytes() == b"short"
    os.truncate(log, kafka_files._LOG_BYTES_MAX + 1)
    kafka_files.rotate_log(log)
    assert not log.exists()
    assert (tmp_path / "server.log.1").stat().st_size > kafka_files._LOG_BYTES_MAX


def test_the_optimizing_compiler_is_off_for_short_lives_only(tmp_path):
    java = Java(tmp_path / "java", tmp_path, 17, "17.0.1")
    jar = tmp_path / "a.jar"
    assert "-XX:TieredStopAtLevel=1" not in kafka_files.server_command(java, [jar], tmp_path)
    command = kafka_files.server_command(java, [jar], tmp_path, short_lived=True, heap_mib=300)
    assert {"-XX:TieredStopAtLevel=1", "-Xmx300m"} <= set(command)


@pytest.mark.parametrize("brokers", [0, 2, 4])
def test_only_one_or_three_brokers_are_offered(brokers):
    with pytest.raises(ValueError, match=f"1 or 3 brokers, not {brokers}"):
        EmbeddedKafka(brokers)


def test_every_broker_needs_a_port_if_ports_are_given():
    with pytest.raises(ValueError, match=r"3 broker\(s\) need 3 port\(s\), not 1"):
        EmbeddedKafka(3, ports=[9092])


def test_a_cluster_that_was_not_started_says_so():
    for ask in (lambda k: k.bootstrap, lambda k: k.folder, lambda k: k.kill_broker()):
        with pytest.raises(RuntimeError, match="has not been started"):
            ask(EmbeddedKafka())


def test_nobody_at_the_port_means_not_ready(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not kafka_client.port_is_open(port)
    assert not kafka_client.coordinators_work(port)
