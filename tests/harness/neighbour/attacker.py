"""The process of the attacker: `python -m harness.neighbour.attacker DOORS`.

One JSON array a line on stdin: ["begin", name of the attack, known, pace, attempts], then ["end"].
On stdout: ["reached"] once it was told all that it must be and has made so many attempts, and at
the end ["over", {what was told: how often}].
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from harness.neighbour.attack import Attacker, Known
from harness.neighbour.table import ATTACKS

if TYPE_CHECKING:
    from harness.neighbour.attack import Attack


def say(*what: Any) -> None:
    print(json.dumps(what), flush=True)


async def run(attack: Attack, attacker: Attacker, pace: float, attempts: int, told: Any) -> None:
    """Attempt after attempt at this pace, until it is cancelled."""
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    was_reached = False
    try:
        async with aclosing(attack.does(attacker)) as answers:
            async for answer in answers:
                told[answer] += 1
                if not was_reached and told.keys() >= attack.told and told.total() >= attempts:
                    was_reached = True
                    say("reached")
                next_s = max(next_s + 1 / pace, loop.time())
                await asyncio.sleep(next_s - loop.time())
    finally:
        await attacker.close()


async def main(doors: dict[str, int]) -> None:
    orders: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear() -> None:
        line = sys.stdin.readline()
        orders.put_nowait(json.loads(line) if line else None)

    loop.add_reader(sys.stdin.fileno(), hear)
    attacks = {attack.name_and_door: attack for attack in ATTACKS}
    while (order := await orders.get()) is not None:
        _, name, known, pace, attempts = order
        attacker = Attacker(**doors, known=Known(**known), run=uuid.uuid4().hex[:6])
        told: Counter[str] = Counter()
        running = asyncio.ensure_future(run(attacks[name], attacker, pace, attempts, told))
        asked = asyncio.ensure_future(orders.get())
        done, _ = await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        if running in done:  # an attack has no end of its own
            say("failed", repr(running.exception()), dict(told))
            raise SystemExit(1)
        while not running.done():  # what is waited for may swallow one, in Python 3.11
            running.cancel()
            await asyncio.wait({running}, timeout=0.5)
        say("over", dict(told))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
