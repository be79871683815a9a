"""Keeps an `Intake` informed: by the owners of this instance, and by those of the others."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from halfhitch.errors import BackendError, ConfigurationError
from halfhitch.service.api import PartitionState
from halfhitch.service.transactions.intake import Intake
from halfhitch.wire.burden import Burden

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
_EXCHANGE_S: Final = 1.0


class BurdenBoard(Protocol):
    """Where instances tell each other what their owners take no more of."""

    def exchange(self, own: Mapping[int, Burden], others: Sequence[int]) -> Mapping[int, Burden]:
        """Tell of partitions that are owned here; hear of others. Blocks, for seconds at most.

        What is not told again within some seconds is not heard any more. Raises BackendError,
        ConfigurationError (no right).
        """
        ...


class IntakeWatch:
    """`run` until it is cancelled. All on the event loop."""

    def __init__(
        self,
        intake: Intake,
        board: BurdenBoard,
        *,
        states: Callable[[], Sequence[PartitionState]],
        partition_count: Callable[[], int],
    ) -> None:
        self._intake = intake
        self._board = board
        self._states = states
        self._partition_count = partition_count
        self._heard: Mapping[int, Burden] = {}
        #: Why the instances cannot tell each other, for people.
        self.trouble: str | None = None

    async def run(self) -> None:
        """See the class's text."""
        await asyncio.gather(self._look(), self._exchange())

    async def _look(self) -> None:
        while True:
            self._intake.look(self._states(), self._heard)
            await asyncio.sleep(_LOOK_S)

    async def _exchange(self) -> None:
        while True:
            await asyncio.sleep(_EXCHANGE_S)
            here = {state.partition for state in self._states()}
            others = [p for p in range(self._partition_count()) if p not in here]
            if not others and not self._intake.own:
                self._heard = {}
                continue  # whoever owns everything and refuses nothing has no questions
            try:
                self._heard = await asyncio.to_thread(
                    self._board.exchange, self._intake.own, others
                )
            except BackendError:
                self._heard = {}  # whoever cannot reach Kafka takes nothing new anyway
            except ConfigurationError as error:
                self._heard = {}
                self._say(
                    "the instances cannot tell each other which half partitions take nothing new, "
                    f"so each refuses for its own only: {error.message}"
                )
            else:
                self._say(None)

    def _say(self, trouble: str | None) -> None:
        if trouble is not None and self.trouble is None:
            logger.warning("%s", trouble, extra={"action": "bounds_not_shared"})
        elif trouble is None and self.trouble is not None:
            logger.info(
                "the instances tell each other again which half partitions take nothing new",
                extra={"action": "bounds_shared"},
            )
        self.trouble = trouble
