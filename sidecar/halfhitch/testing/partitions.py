"""Half partitions of a Kafka in memory, and threads on them that say when nothing is left to do."""

import time
from collections.abc import Callable
from typing import Final

from halfhitch.adapters.memory import MemoryKafka
from halfhitch.service.owner.turn import PartitionOwner, StepFailedError
from halfhitch.service.owner.worker import PartitionWorker

#: A thread that has nothing to do looks again so often, whatever wakes it meanwhile.
_LOOK_S: Final = 0.05
#: Before a step that Kafka has refused is tried again.
_PAUSE_S: Final = 0.01


class SettlingWorker(PartitionWorker):
    """Works at once on whatever comes, and is asked whether it has done all there is."""

    def __init__(
        self,
        partition: int,
        make_owner: Callable[[Callable[[], bool]], PartitionOwner],
        kafka: MemoryKafka,
    ) -> None:
        super().__init__(partition, make_owner)
        self._kafka = kafka
        self._logs = [kafka.log(topic, partition) for topic in (kafka.half_topic, kafka.op_topic)]
        self._asked = 0
        self._quiet_at = 0

    def ask(self) -> int:
        """Look at everything once more, the clock included; a number for `is_quiet`."""
        with self._kafka.changed:
            self._asked += 1
            self._kafka.changed.notify_all()
            return self._asked

    def is_quiet(self, asked: int) -> bool:
        """Whether it has looked since then and found nothing to do."""
        return self._quiet_at >= asked

    def _work(self, owner: PartitionOwner) -> None:
        while not self._stopping.is_set():
            asked, ends = self._asked, self._ends()
            try:
                is_busy = owner.turn(0.0)
            except StepFailedError as error:
                self._trouble = str(error)
                self._stopping.wait(_PAUSE_S)
                continue
            self._trouble = None
            with self._kafka.changed:
                if is_busy or ends != self._ends():
                    continue
                self._quiet_at = asked
                self._kafka.changed.notify_all()
                if self._asked == asked:
                    self._kafka.changed.wait(_LOOK_S)

    def _failed(self, error: Exception, action: str) -> None:
        super()._failed(error, action)
        self._pause_s = _PAUSE_S  # a test's Kafka is back when the test says so

    def _ends(self) -> list[int]:
        return [log.end for log in self._logs]


def wait_until_quiet(
    kafka: MemoryKafka, workers: list[SettlingWorker], deadline_s: float
) -> list[int]:
    """Until each has looked and found nothing to do; the partitions that have not by then."""
    asked = [(worker, worker.ask()) for worker in workers]
    give_up_s = time.monotonic() + deadline_s
    while True:
        with kafka.changed:
            busy = [worker.partition for worker, number in asked if not worker.is_quiet(number)]
            left_s = give_up_s - time.monotonic()
            if not busy or left_s <= 0:
                return busy
            kafka.changed.wait(min(left_s, _LOOK_S))
