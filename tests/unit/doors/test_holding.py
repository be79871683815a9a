"""What a door holds open, and how it lets go of it."""

import asyncio

from halfhitch.doors.holding import Holding


class Open:
    def __init__(self, holding: Holding, *, leaves: bool) -> None:
        self.holding, self.leaves = holding, leaves
        self.was_aborted = False

    def sweep(self, now_s: float) -> None:
        pass

    def start_draining(self) -> None:
        if self.leaves:
            self.holding.connections.discard(self)
            self.holding.drained_some()

    def abort(self) -> None:
        self.was_aborted = True


async def test_a_door_that_holds_nothing_is_drained_at_once() -> None:
    holding = Holding()
    await asyncio.wait_for(holding.drain(60, []), 30)
    assert holding.is_draining


async def test_what_was_begun_is_answered_before_anything_is_ended() -> None:
    holding = Holding()
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(answer)
    holding.tasks.add(task)

    def ended(_: object) -> None:
        holding.tasks.discard(task)
        holding.drained_some()

    task.add_done_callback(ended)
    holding.connections.add(Open(holding, leaves=True))
    draining = asyncio.ensure_future(holding.drain(60, []))
    await asyncio.sleep(0)
    assert not draining.done()
    answer.set_result(None)
    await asyncio.wait_for(draining, 30)
    assert not task.cancelled()


async def test_who_does_not_leave_in_time_is_ended_with_the_helpers() -> None:
    holding = Holding()
    stays = Open(holding, leaves=False)
    holding.connections.add(stays)
    never: asyncio.Task[bool] = asyncio.ensure_future(asyncio.Event().wait())
    helper: asyncio.Task[bool] = asyncio.ensure_future(asyncio.Event().wait())
    holding.tasks.add(never)
    await holding.drain(0, [helper, None])
    assert stays.was_aborted
    assert never.cancelled()
    assert helper.cancelled()
