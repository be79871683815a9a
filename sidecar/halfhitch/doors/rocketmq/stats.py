"""What the door counts: plain numbers, for a metric call for each request would cost too much.

Written on the event loop only. Readers on other threads take copies (`snapshot`).
"""

from dataclasses import dataclass, field
from typing import Final

from halfhitch.wire.remoting import codes

#: What a client asks, by the name of its metric label.
REQUEST_NAMES: Final = {
    codes.SEND_MESSAGE: "send",
    codes.SEND_MESSAGE_V2: "send",
    codes.SEND_BATCH_MESSAGE: "send_batch",
    codes.END_TRANSACTION: "end_transaction",
    codes.HEART_BEAT: "heart_beat",
    codes.UNREGISTER_CLIENT: "unregister",
    codes.GET_ROUTE_INFO_BY_TOPIC: "route",
    codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER: "topic_list",
    codes.GET_BROKER_CLUSTER_INFO: "cluster",
    codes.GET_MAX_OFFSET: "max_offset",
    codes.UPDATE_AND_CREATE_TOPIC: "create_topic",
}


@dataclass(slots=True)
class Snapshot:
    """The numbers of one moment."""

    requests: dict[tuple[str, int], int]  # by request and the code of its answer
    failed_one_way_ends: dict[str, int]  # by the code of the error
    connection_count: int
    producer_count: int  # producer groups of connections
    in_flight_count: int
    native_count: int  # of the requests: carried out on native threads
    refused_producers: dict[str, int]  # groups that got no place, by what there was too little of
    in_flight_bytes: int
    busy_answers: dict[str, int]  # by what there was too much of


@dataclass(slots=True)
class Stats:
    """The door's numbers."""

    requests: dict[tuple[int, int], int] = field(default_factory=dict)
    failed_one_way_ends: dict[str, int] = field(default_factory=dict)
    native_count: int = 0
    connection_count: int = 0
    producer_count: int = 0
    in_flight_count: int = 0
    in_flight_bytes: int = 0  # but for those of native threads
    refused_producers: dict[str, int] = field(default_factory=dict)
    busy_answers: dict[str, int] = field(default_factory=dict)

    def answered(self, request_code: int, response_code: int, count: int = 1) -> None:
        """Requests have their answers, even if nobody waits for them."""
        if count:
            key = (request_code, response_code)
            self.requests[key] = self.requests.get(key, 0) + count

    def end_failed(self, error_code: str) -> None:
        """A decision could not be stored, and its producer does not know: a check will ask."""
        self.failed_one_way_ends[error_code] = self.failed_one_way_ends.get(error_code, 0) + 1

    def producer_refused(self, why: str) -> None:
        """A producer group gets no checks over a connection."""
        self.refused_producers[why] = self.refused_producers.get(why, 0) + 1

    def busy(self, why: str) -> None:
        """A message is refused, and will be sent again."""
        self.busy_answers[why] = self.busy_answers.get(why, 0) + 1

    def snapshot(self) -> Snapshot:
        """A copy with names; requests of other kinds are one line."""
        requests: dict[tuple[str, int], int] = {}
        for (request_code, response_code), count in self.requests.copy().items():
            key = (REQUEST_NAMES.get(request_code, "other"), response_code)
            requests[key] = requests.get(key, 0) + count
        return Snapshot(
            requests,
            self.failed_one_way_ends.copy(),
            self.connection_count,
            self.producer_count,
            self.in_flight_count,
            self.native_count,
            self.refused_producers.copy(),
            self.in_flight_bytes,
            self.busy_answers.copy(),
        )
