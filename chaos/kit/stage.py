"""The stage: three real brokers, a Redis and sidecar processes, for many scenarios in a row.

Owns `Stage` (the servers, started once) and `Scene` (one scenario's own world: a topic prefix,
target topics, sidecars, applications, readers). Scenes share nothing but the servers.

A scene's first sidecar may reach Kafka and Redis through proxies, the others never do: so that a
network fault can hit one instance while another is there to take over.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chaos.kit import releases, rights
from chaos.kit.apps import Application, AppPlan
from chaos.kit.fault_sidecar import FaultSidecar
from chaos.kit.links import KafkaLinks, TcpLink
from chaos.kit.readers import READ_UNCOMMITTED, Tail, WatermarkSampler
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis
from halfhitch.wire.topics import InternalTopics
from harness.check_sidecars import clock_settings
from harness.kafka import admin_client, create_topics, fresh_name, wait_until
from harness.places import python_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from redis import Redis

#: What the scenes' sidecars are told, so far as it is not the default.
SESSION_TIMEOUT_MS = 6_000
TRANSACTION_TIMEOUT_MS = 10_000
HALF_PARTITIONS = 2
TARGET_PARTITIONS = 2
TARGET_NAMES = ("orders", "points", "mails")
CHECKS_MAX = 3
IMMUNITY_S = 2.0
INTERVAL_S = 1.5

_SMALL_DISK_MIB = 256


class SmallDisk:
    """A tmpfs of a few megabytes, where the kernel lets us mount one."""

    def __init__(self, place: Path, mebibytes: int) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self._ballast = place / "ballast"
        if not mebibytes:
            self.trouble: str | None = "none was asked for"
            return
        told = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.trouble = None if told.returncode == 0 else told.stderr.strip() or "mount failed"

    def fill(self) -> None:
        """Take what is left."""
        with self._ballast.open("wb") as file:
            try:
                while True:
                    file.write(bytes(65_536))
                    file.flush()
            except OSError:
                pass  # that is what was wanted

    def free(self) -> None:
        """Give it back."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount."""
        if self.trouble is None:
            subprocess.run(["umount", "-l", str(self.place)], capture_output=True, check=False)


class Stage:
    """The servers. `disk` is the small disk of broker 3; of no size it is an ordinary one."""

    def __init__(self, *, disk_mib: int = _SMALL_DISK_MIB, brokers: int = 3) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="halfhitch-faults-"))
        self.disk = SmallDisk(self.folder / "kafka" / "broker-3", disk_mib)
        self.kafka = EmbeddedKafka(
            brokers=brokers,
            folder=self.folder / "kafka",
            proxy_listener=True,
            heap_mib=320,
            short_lived=True,
            properties={
                "log.segment.bytes": "8388608",
                "log.index.size.max.bytes": "1048576",
                **rights.PROPERTIES,
            },
        )
        self.redis = EmbeddedRedis(self.folder / "redis")
        self._scenes = 0

    def __enter__(self) -> Self:
        try:
            self.kafka.start()
            self.redis.start()
            self.links = KafkaLinks(self.kafka.proxies)
            self.redis_link = TcpLink(self.redis.port)
            self.admin = admin_client(self.kafka.bootstrap)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything, leave nothing behind."""
        for name in ("links", "redis_link"):
            if (link := getattr(self, name, None)) is not None:
                link.close()
        for broker_id in self.kafka.broker_ids:
            with contextlib.suppress(RuntimeError):
                self.kafka.kill_broker(broker_id)
        self.kafka.stop()
        self.redis.stop()
        self.disk.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def redis_client(self) -> Redis:
        """A plain client with short waits."""
        from redis import Redis

        return Redis(port=self.redis.port, protocol=2, socket_timeout=5)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Broker that leads a partition now; the coordinators are leaders of internal topics."""
        found = self.admin.list_topics(topic, timeout=15).topics[topic].partitions[partition]
        leader: int = found.leader
        return leader

    def repair(self) -> None:
        """Whatever the last scene left: everything runs, nothing is held, settings as before."""
        self.links.heal()
        self.redis_link.heal()
        self.disk.free()
        for broker_id in self.kafka.broker_ids:
            self.kafka.resume_broker(broker_id)
            if not self.kafka.broker_is_running(broker_id):
                self.kafka.restart_broker(broker_id, wait_until_ready=False)
        self.kafka.wait_until_ready()
        self.redis.resume()
        self.redis.start()
        client = self.redis_client()
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.config_set("maxmemory", "0")
        client.flushall()
        client.close()
        self.wait_in_sync()

    def wait_in_sync(self) -> None:
        """Until the coordinators' topics have all their copies."""

        def all_there() -> bool:
            topics = self.admin.list_topics(timeout=15).topics.values()
            own = [t for t in topics if t.topic.startswith("__")]
            count = len(self.kafka.broker_ids)
            return all(len(p.isrs) == count for t in own for p in t.partitions.values())

        wait_until(all_there, 60, interval_s=0.2, what="all replicas in sync")

    @contextlib.contextmanager
    def scene(self, seed: int, **options: Any) -> Iterator[Scene]:
        """A fresh world; everything of it has ended when the block is left."""
        self._scenes += 1
        made = Scene(self, seed, **options)
        try:
            made.open()
            yield made
        finally:
            made.close()


class Scene:
    """One scenario's world. Times are monotonic seconds."""

    def __init__(
        self,
        stage: Stage,
        seed: int,
        *,
        sidecar_count: int = 2,
        app_count: int = 2,
        via_proxy: bool = False,
        all_via_proxy: bool = False,
        is_watched: bool = True,
        more_targets: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
        first_settings: Mapping[str, str] | None = None,
        clock_shift_s: int = 0,
        crash_point: str | None = None,
        crash_visit: int = 1,
        crash_how: str = "KILL",
        release: str | None = None,
        **app_options: Any,
    ) -> None:
        self.stage, self.seed = stage, seed
        self.prefix = fresh_name("f") + "-"
        self.names = InternalTopics(self.prefix)
        self.targets = tuple(self.prefix + name for name in (*TARGET_NAMES, *more_targets))
        self.folder = stage.folder / self.prefix
        self.folder.mkdir()
        self.histories = self.folder / "histories"
        self.histories.mkdir()
        self.faults: list[str] = []
        self.recovery: dict[str, float] = {}
        self.readers: list[Tail | WatermarkSampler] = []
        self.grown_topics: set[str] = set()
        self.resets_ms: list[int] = []
        self.revived: list[str] = []
        self._is_watched = is_watched
        self._is_kept = "HALFHITCH_FAULTS_KEEP" in os.environ
        proxied = {
            "HALFHITCH_KAFKA_BOOTSTRAP": stage.kafka.proxy_bootstrap,
            "HALFHITCH_KAFKA_OPTIONS": rights.OPTIONS,
        }
        direct = {"HALFHITCH_KAFKA_BOOTSTRAP": stage.kafka.bootstrap}
        self._settings = {**(proxied if all_via_proxy else direct), **(settings or {})}
        if via_proxy:
            first_settings = {
                **proxied,
                "HALFHITCH_REDIS_URL": f"redis://127.0.0.1:{stage.redis_link.port}/0",
                **(first_settings or {}),
            }
        if clock_shift_s:
            clock = clock_settings(self.folder, clock_shift_s)
            first_settings = {**(first_settings or {}), **clock}
        self.sidecars = {
            name: self._sidecar(name, (first_settings or {}) if name == "a" else {}, release)
            for name in "abc"[:sidecar_count]
        }
        if crash_point is not None:
            self._arm(self.sidecars["a"], crash_point, crash_visit, crash_how)
        base = AppPlan(
            name="",
            group="",
            addresses=tuple(s.address for s in self.sidecars.values()),
            topics=self.targets,
            history="",
            fates="",
            seed=seed,
            **app_options,
        )
        self.apps = [self._app(base, n) for n in range(app_count)]

    def _sidecar(self, name: str, more: Mapping[str, str], release: str | None) -> FaultSidecar:
        folder = self.folder / name
        folder.mkdir()
        made = FaultSidecar(
            self.stage.kafka.bootstrap,
            folder,
            **{
                "HALFHITCH_INSTANCE_ID": name,
                "HALFHITCH_REDIS_URL": self.stage.redis.url,
                "HALFHITCH_TOPICS_PREFIX": self.prefix,
                "HALFHITCH_TOPICS_CREATE": "true",
                "HALFHITCH_TOPICS_PARTITIONS": str(HALF_PARTITIONS),
                "HALFHITCH_TOPICS_REPLICATION_FACTOR": str(len(self.stage.kafka.broker_ids)),
                "HALFHITCH_OWNER_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
                "HALFHITCH_OWNER_TRANSACTION_TIMEOUT_MS": str(TRANSACTION_TIMEOUT_MS),
                "HALFHITCH_CHECKS_IMMUNITY_S": str(IMMUNITY_S),
                "HALFHITCH_CHECKS_INTERVAL_S": str(INTERVAL_S),
                "HALFHITCH_CHECKS_COUNT_MAX": str(CHECKS_MAX),
                "HALFHITCH_CHECKS_ANSWER_S_MAX": "2",
                "HALFHITCH_VISIBLE_WAIT_S_MAX": "10",
                **self._settings,
                **more,
            },
        )
        if release is not None:
            releases.run_as(made, releases.RELEASES[release])
        return made

    def _arm(self, sidecar: FaultSidecar, point: str, visit: int, how: str) -> None:
        sidecar.command = ("chaos.kit.crash_launcher",)
        place = python_path()
        sidecar.dies_on_purpose = "KILL" in how
        sidecar.environment |= {
            "PYTHONPATH": place,
            "FAULTS_CRASH_POINT": point,
            "FAULTS_CRASH_VISIT": str(visit),
            "FAULTS_CRASH_HOW": how,
            "FAULTS_CRASH_TRIGGER": str(sidecar.folder / "trigger"),
        }

    def _app(self, base: AppPlan, number: int) -> Application:
        group = f"group-{number % 2}"
        name = f"{self.prefix}app{number}"
        plan = replace(
            base,
            name=name,
            group=group,
            history=str(self.histories / f"app{number}.jsonl"),
            fates=str(self.folder / f"{group}.sqlite"),
        )
        return Application(plan, self.folder / f"app{number}.log")

    # -- its course ------------------------------------------------------------------------------

    def open(self) -> None:
        """Sidecars work, applications send, watchers watch."""
        bootstrap = self.stage.kafka.bootstrap
        create_topics(bootstrap, dict.fromkeys(self.targets, TARGET_PARTITIONS))
        for sidecar in self.sidecars.values():
            sidecar.start()
        self.wait_working(60)
        if self._is_watched:
            self._watch(bootstrap)
        for app in self.apps:
            app.start()

    def _watch(self, bootstrap: str) -> None:
        names = self.names
        self.committed = Tail(bootstrap, (*self.targets, names.parked))
        self.uncommitted = Tail(bootstrap, self.targets, READ_UNCOMMITTED)
        self.logs = Tail(bootstrap, (names.half, names.op))
        self.sampler = WatermarkSampler(
            bootstrap, names.half, names.op, HALF_PARTITIONS, group=names.owner_group
        )
        self.readers = [self.committed, self.uncommitted, self.logs, self.sampler]
        for reader in self.readers:
            reader.start()

    def close(self) -> None:
        """End every process of the scene, by force where needed."""
        for reader in self.readers:
            with contextlib.suppress(
                Exception
            ):  # a reading that failed was told when it was judged
                reader.stop()
        for app in self.apps:
            if app.process is not None:
                if app.is_alive:
                    app.send_signal(signal.SIGCONT)
                    app.kill()
                else:
                    app.close()
        for sidecar in self.sidecars.values():
            if sidecar.is_alive:
                sidecar.resume()
                sidecar.kill()
        if self._is_kept:
            kept = Path(tempfile.gettempdir()) / f"halfhitch-kept-{self.prefix}"
            shutil.copytree(self.folder, kept, ignore=shutil.ignore_patterns("*.sock"))
            self._keep_brokers(kept)
            print(f"histories and logs are kept in {kept}")
        shutil.rmtree(self.folder, ignore_errors=True)
        self._drop_topics()

    def _keep_brokers(self, kept: Path) -> None:
        """Their logs, and what the coordinators wrote: only that tells what Kafka itself forgot."""
        for folder in (self.stage.folder / "kafka").glob("broker-*"):
            for found in (*folder.glob("server.log*"), *folder.glob("data/__*-*")):
                copy = shutil.copytree if found.is_dir() else shutil.copy
                place = kept / folder.name / found.name
                place.parent.mkdir(exist_ok=True)
                with contextlib.suppress(OSError):  # a file that Kafka takes away meanwhile
                    copy(found, place)

    def _drop_topics(self) -> None:
        """Hundreds of dead partitions would slow the brokers down."""
        try:
            known = self.stage.admin.list_topics(timeout=10).topics
            own = [name for name in known if name.startswith(self.prefix)]
            for future in self.stage.admin.delete_topics(own, operation_timeout=10).values():
                future.exception(15)
        except Exception as error:  # noqa: BLE001 - a broken Kafka is the next scene's business
            print(f"topics of {self.prefix} were not deleted: {error}")

    def keep(self) -> None:
        """Histories and logs shall stay when the scene is closed."""
        self._is_kept = True

    def count_in_logs(self, text: str) -> int:
        """Lines of the sidecars' logs, over all their lives."""
        logs = [s.log.read_text(errors="replace") for s in self.sidecars.values()]
        return sum(text in line for log in logs for line in log.splitlines())

    def ways(self) -> list[str]:
        """How sidecars of this tree have run: native, interpreted, or both."""
        return sorted(set().union(*(s.ways for s in self.sidecars.values())))

    def revive(self) -> None:
        """A sidecar that has ended by itself is started again, as whatever runs it would do."""
        for name, sidecar in self.sidecars.items():
            if sidecar.is_wanted and not sidecar.dies_on_purpose and not sidecar.is_alive:
                self.revived.append(f"{name} ended with status {sidecar.exit_code}")
                sidecar.start()

    def go_on(self, seconds: float) -> None:
        """Let the load run. The one place where a scenario waits for time to pass."""
        time.sleep(seconds)

    def quieten(self) -> None:
        """No new transactions."""
        for app in self.apps:
            app.quieten()

    def owner(self) -> FaultSidecar:
        """The sidecar that works on most partitions; `a` if they share equally."""
        return max(self.sidecars.values(), key=lambda s: len(s.working()))

    def check_count(self) -> int:
        """Questions that have come to the applications so far."""
        return sum(
            path.read_bytes().count(b'{"op":"check","phase":"invoke"')
            for path in self.histories.iterdir()
        )

    def others(self, sidecar: FaultSidecar) -> list[FaultSidecar]:
        """All but this one."""
        return [s for s in self.sidecars.values() if s is not sidecar]

    def wait_working(self, deadline_s: float, of: list[FaultSidecar] | None = None) -> float:
        """Until every half partition has a working owner among `of`; gives the seconds it took."""
        began_s = time.monotonic()
        among = list(self.sidecars.values()) if of is None else of

        def all_owned() -> bool:
            self.revive()
            return {p for s in among for p in s.working()} == set(range(HALF_PARTITIONS))

        def told() -> str:
            return f"an owner for all: { {s.folder.name: s.partitions() for s in among} }"

        wait_until(all_owned, deadline_s, interval_s=0.05, what=told)
        return time.monotonic() - began_s

    def wait_decided(self, deadline_s: float = 60.0) -> float:
        """Until nothing is pending or under way anywhere; gives the seconds it took."""
        began_s = time.monotonic()

        def decided() -> bool:
            self.revive()
            states = [p for s in self.sidecars.values() for p in s.partitions()]
            return {p["partition"] for p in states} == set(range(HALF_PARTITIONS)) and all(
                p["phase"] == "working"
                # A decision for a half that was refused waits for nobody; it fades with time.
                and p["pending_count"] == p["decided_count"] == 0
                for p in states
            )

        def told() -> str:
            return f"all decided: { {n: s.partitions() for n, s in self.sidecars.items()} }"

        wait_until(decided, deadline_s, interval_s=0.1, what=told)
        return time.monotonic() - began_s
