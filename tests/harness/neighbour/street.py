"""Where both live: a coordinator in a process of its own, with small bounds, and the attacker's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.access.identities import token_digest
from harness.kafka import create_topics, fresh_name
from harness.neighbour.attack import BANK, ROOT, SECRETS, SHOP
from harness.neighbour.victim import Victim
from harness.places import python_path
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.neighbour.attack import Attack, Known

#: What is surely over by then.
_TAKEOVER_S = 60
_IDENTITIES = """
[identities.shop]
roles = ["produce", "check"]
groups = ["shop"]
topics = ["{topic}"]
tokens = ["sha256:{shop}"]
access_keys = ["shop-key"]

[identities.bank]
roles = ["produce", "check"]
groups = ["bank", "bank-*"]
topics = ["{own_topic}*"]
tokens = ["sha256:{bank}"]
access_keys = ["bank-key"]

[identities.root]
roles = ["admin"]
tokens = ["sha256:{root}"]
"""
DEADLINE_S = 120.0


@dataclass
class Round:
    """One attack, with the victim's time before it and while it lasted."""

    told: dict[str, int]
    before_s: dict[str, float]
    with_s: dict[str, float]

    @property
    def ratio(self) -> float:
        """Of both doors together: of the sums, so that neither counts for more than it takes."""
        return sum(self.with_s.values()) / sum(self.before_s.values())


class Hostile:
    """The attacker's process."""

    def __init__(self, process: asyncio.subprocess.Process, pace: float) -> None:
        self._process, self._pace = process, pace
        self._name = ""

    async def begin(self, attack: Attack, known: Known, attempts: int) -> None:
        self._name = attack.name_and_door
        await self._order("begin", attack.name_and_door, asdict(known), self._pace, attempts)

    async def reached(self) -> None:
        """It has been told all that the table says."""
        try:
            found = await self._heard()
        except TimeoutError:
            told = await self.end()
            raise AssertionError(f"{self._name}: all it was told: {told}") from None
        assert found[0] == "reached", found

    async def end(self) -> dict[str, int]:
        """What it was told, each how often."""
        with contextlib.suppress(ConnectionError):  # one that has failed is gone; it said why
            await self._order("end")
        found = await self._heard()
        assert found[0] == "over", (self._name, found)
        told: dict[str, int] = found[1]
        return told

    async def _order(self, *order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()

    async def _heard(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            return json.loads(await self._process.stdout.readline())


@dataclass
class Street:
    """Coordinator, victim and attacker."""

    sidecar: Sidecar
    victim: Victim
    hostile: Hostile
    own_topic: str
    rounds: dict[str, list[Round]] = field(default_factory=dict)

    async def suffer(self, attack: Attack, count: int, attempts: int) -> Round:
        """So many transactions at each door without, and with the attack."""
        calm = self.victim.phase()
        await self.victim.has_done(calm, count)
        known, sent = await self.victim.bait(self.own_topic)
        await self.hostile.begin(attack, known, attempts)
        stormy = self.victim.phase()
        await self.hostile.reached()
        await self.victim.has_done(stormy, count)
        self.victim.phase()
        told = await self.hostile.end()
        await self.victim.take_bait(known, sent)
        await asyncio.to_thread(self._let_go)
        made = Round(told, calm.median_s, stormy.median_s)
        self.rounds.setdefault(attack.name_and_door, []).append(made)
        return made

    def _let_go(self) -> None:
        """An operator rolls back what the attacker left undecided.

        It would fill its bound with what one attack leaves, and be refused in the next one before
        it had done anything (the second round of the benchmark waited for a success that could not
        come).
        """
        give_up_s = time.monotonic() + _TAKEOVER_S
        while True:
            done = self._roll_back_all()
            # A takeover that is under way is said to be over in some seconds.
            if "try again" not in done.stderr or time.monotonic() > give_up_s:
                break
            time.sleep(0.2)
        assert done.returncode == 0, done.stderr

    def _roll_back_all(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(sys.executable, "-m", "halfhitch_cli", "tx", "rollback", "--all-matching"),
                *("--topic", self.own_topic, "--yes", "--reason", "an attack is over"),
                *("--server", f"http://127.0.0.1:{self.sidecar.admin_port}"),
            ],
            env={**os.environ, "PYTHONPATH": python_path(), "HALFHITCH_AUTH_TOKENS": ROOT},
            check=False,
            capture_output=True,
            text=True,
        )


@asynccontextmanager
async def street(
    bootstrap: str, folder: Path, redis_url: str | None, *, victim_pace: float, pace: float
) -> AsyncIterator[Street]:
    """`pace`: attempts of the attacker in a second; `victim_pace`: transactions at each door."""
    topic, own_topic = fresh_name("orders"), fresh_name("payments")
    create_topics(bootstrap, {topic: 3, own_topic: 3})
    identities = folder / "identities.toml"
    digests = {
        name: token_digest(token.encode()).hex()
        for name, token in (("shop", SHOP), ("bank", BANK), ("root", ROOT))
    }
    identities.write_text(_IDENTITIES.format(topic=topic, own_topic=own_topic, **digests))
    identities.chmod(0o600)
    deaf = socket.create_server(("127.0.0.1", 0), backlog=512)
    sidecar = Sidecar(
        bootstrap,
        folder,
        HALFHITCH_TOPICS_PREFIX=fresh_name("street") + "-",
        HALFHITCH_TOPICS_CREATE="true",
        HALFHITCH_AUTH_IDENTITIES_FILE=str(identities),
        HALFHITCH_ROCKETMQ_ENABLED="true",
        HALFHITCH_ROCKETMQ_PORT="0",
        HALFHITCH_ROCKETMQ_ACCESS_KEYS=",".join(f"{k}:{v}" for k, v in SECRETS.items()),
        HALFHITCH_ROCKETMQ_CONNECTIONS_MAX="40",
        HALFHITCH_HTTP_CONNECTIONS_MAX="80",
        HALFHITCH_LIMITS_UNDECIDED_GROUP_MAX="200",
        HALFHITCH_LIMITS_UNDECIDED_MAX="1000",
        # A machine that is busy is no attack.
        HALFHITCH_LIMITS_LAG_S_MAX="120",
        HALFHITCH_OWNER_SESSION_TIMEOUT_MS="15000",
        HALFHITCH_CHECKS_IMMUNITY_S="1",
        HALFHITCH_CHECKS_INTERVAL_S="2",
        HALFHITCH_CHECKS_URL=f"http://127.0.0.1:{deaf.getsockname()[1]}/checks",
        HALFHITCH_CHECKS_URL_GROUPS="bank-hang",
        **({} if redis_url is None else {"HALFHITCH_REDIS_URL": redis_url}),
    )
    sidecar.token = ROOT
    with deaf, sidecar:
        await asyncio.to_thread(sidecar.wait_ready, 120)
        said = sidecar.log.read_text()
        doors = {"admin_port": sidecar.admin_port}
        for door, name in (("http", "http_port"), ("rocketmq", "rocketmq_port")):
            (port,) = re.findall(rf"{door}://127\.0\.0\.1:(\d+)", said)
            doors[name] = int(port)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "harness.neighbour.attacker",
            json.dumps(doors),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path()},
        )
        try:
            victim = Victim(doors["http_port"], doors["rocketmq_port"], topic, victim_pace)
            async with victim:
                yield Street(sidecar, victim, Hostile(process, pace), own_topic)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
