"""The table of all metrics: name, help, labels and buckets. No metric exists outside it."""

from dataclasses import dataclass
from typing import Literal

_REQUEST_S = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
_WAIT_S = (*_REQUEST_S[2:], 30.0, 60.0, 300.0)
_REPLAY_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(text: str, *labels: str) -> Metric:
    return Metric("counter", text, labels)


def _gauge(text: str, *labels: str) -> Metric:
    return Metric("gauge", text, labels)


def _histogram(text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric("histogram", text, labels, buckets)


_DOORS = {
    "halfhitch_refused_connections_total": _counter(
        "Connections and check streams turned away: the door is full, or one address (peer), one "
        "producer group (group) or one identity (identity) has its share.",
        "door",
        "reason",
    ),
    "halfhitch_http_requests_total": _counter(
        "Requests the data door has answered.", "route", "status"
    ),
    "halfhitch_http_request_seconds": _histogram(
        "From the first byte of a request to its answer.", _REQUEST_S, "route"
    ),
    "halfhitch_unauthorized_total": _counter(
        "Requests refused because nobody knows whose they are: no token, or a wrong one.", "door"
    ),
    "halfhitch_forbidden_total": _counter(
        "Requests of an identity refused because it lacks the right.", "identity", "right"
    ),
    "halfhitch_too_many_requests_total": _counter(
        "Requests of an identity refused because it had asked as often as it may in a second.",
        "identity",
    ),
    "halfhitch_identities": _gauge("Identities of auth.identities_file that are known now."),
    "halfhitch_identities_file_broken": _gauge(
        "1 while auth.identities_file cannot be read; those it had before still count."
    ),
    "halfhitch_rocketmq_requests_total": _counter(
        "Requests the RocketMQ door has answered or, one-way, carried out.", "request", "code"
    ),
    "halfhitch_rocketmq_failed_oneway_ends_total": _counter(
        "Decisions of RocketMQ producers that failed without their knowing; checks repair them.",
        "code",
    ),
    "halfhitch_rocketmq_native_requests_total": _counter(
        "Requests of RocketMQ clients that native threads carried out."
    ),
    "halfhitch_rocketmq_connections": _gauge("Connections of RocketMQ clients."),
    "halfhitch_rocketmq_producers": _gauge(
        "Producer groups of these connections, each of them a way to ask."
    ),
    "halfhitch_rocketmq_refused_producers_total": _counter(
        "Heartbeats and half messages whose group got no place to be asked: the connection, the "
        "identity or the door (full) has all it may have.",
        "reason",
    ),
    "halfhitch_rocketmq_in_flight_requests": _gauge("Requests of the RocketMQ door under way."),
    "halfhitch_rocketmq_in_flight_bytes": _gauge(
        "Bytes that these requests hold, but for those that native threads carry out."
    ),
    "halfhitch_rocketmq_busy_answers_total": _counter(
        "Messages refused because too much is under way: requests or bytes of all, or the half of "
        "either that one identity has.",
        "reason",
    ),
}

_CALLERS = {
    "halfhitch_prepared_transactions_total": _counter("Prepares that were acknowledged."),
    "halfhitch_prepared_messages_total": _counter(
        "Half messages stored by prepares that were acknowledged."
    ),
    "halfhitch_prepare_seconds": _histogram(
        "From a prepare's arrival until all its halves are stored.", _REQUEST_S
    ),
    "halfhitch_prepare_refused_total": _counter("Prepares answered with an error.", "code"),
    "halfhitch_decisions_total": _counter("Decisions that became durable.", "resolution", "source"),
    "halfhitch_decide_seconds": _histogram(
        "From an end's arrival until the decision is durable.", _REQUEST_S, "resolution"
    ),
    "halfhitch_end_refused_total": _counter("Ends answered with an error.", "code"),
    "halfhitch_visible_latency_seconds": _histogram(
        "From a commit's broker time until its messages were visible, by this machine's clock; one "
        "sample for each committed transaction. Clocks that differ shift it, at most down to 0.",
        _WAIT_S,
    ),
}

_CHECKS = {
    "halfhitch_checks_sent_total": _counter("Checks handed to a producer."),
    "halfhitch_check_lag_seconds": _histogram(
        "From the moment a check was due until it was handed to a producer.", _WAIT_S
    ),
    "halfhitch_check_answer_seconds": _histogram(
        "From the moment a check was handed to a producer until its answer was here, by what it "
        "was. A producer at another instance is that much further away.",
        _WAIT_S,
        "outcome",
    ),
    "halfhitch_check_outcomes_total": _counter("What became of checks.", "outcome"),
    "halfhitch_checks_undelivered_total": _counter(
        "Checks that did not surely reach a producer, and are sent again with the same number."
    ),
    "halfhitch_given_up_transactions_total": _counter(
        "Undecided transactions given up, by what became of them and why.", "policy", "reason"
    ),
    "halfhitch_renewed_transactions_total": _counter(
        "Old transactions stored anew without being checked: pending ones, or with a target away."
    ),
    "halfhitch_resumed_transactions_total": _counter("Parked transactions put back."),
    "halfhitch_audit_entries_total": _counter(
        "Entries of the audit topic: written, or lost because it took none for too long.", "outcome"
    ),
    "halfhitch_redis_up": _gauge(
        "1 while Redis takes what is written, 0 while it does not; missing if none is configured."
    ),
    "halfhitch_redis_rebuilds_total": _counter(
        "How often the list of undecided transactions in Redis was rewritten, in whole or for some "
        "half partitions, by reason.",
        "reason",
    ),
}

_OWNERS = {
    "halfhitch_commit_messages_total": _counter("Messages forwarded to their real topics."),
    "halfhitch_topic_messages_total": _counter(
        "The same by topic. The first 500 topics of the process have a line, the others are "
        "`other`.",
        "topic",
    ),
    "halfhitch_rollback_messages_total": _counter(
        "Messages dropped, never to be seen: rolled back, or not covered by their commit."
    ),
    "halfhitch_parked_transactions_total": _counter(
        "Transactions moved to the parked topic: undeliverable, incomplete, or given up undecided."
    ),
    "halfhitch_parked_messages_total": _counter("Messages of these transactions."),
    "halfhitch_kafka_transactions_total": _counter(
        "Kafka transactions of the owner, by how they ended.", "partition", "outcome"
    ),
    "halfhitch_kafka_transaction_seconds": _histogram(
        "From beginning a Kafka transaction to knowing its end.", _REQUEST_S, "outcome"
    ),
    "halfhitch_producers_recycled_total": _counter(
        "The owner's producers replaced, since a request of theirs might still be on its way.",
        "partition",
    ),
    "halfhitch_producers_left_total": _counter(
        "Producers of owners left in a call of Kafka's client that did not return; the half"
        " partition goes on with another one."
    ),
    "halfhitch_left_producers": _gauge(
        "Of these, how many are still in their call. More than three of one half partition end the"
        " process."
    ),
    "halfhitch_targets_away_total": _counter(
        "How often a target topic took no messages in time; the others went on."
    ),
    "halfhitch_conflicts_total": _counter(
        "Decisions or messages that lost against an earlier decision.", "kind"
    ),
    "halfhitch_unknown_decisions_total": _counter(
        "Decisions dropped because nothing is known of their transaction."
    ),
    "halfhitch_garbage_records_total": _counter(
        "Unreadable records passed over in an internal topic.", "log"
    ),
    "halfhitch_takeovers_total": _counter("Half partitions taken over.", "partition"),
    "halfhitch_old_watermarks_total": _counter(
        "Takeovers to which Kafka gave watermarks below the logs, and that went on from the newest"
        " pair that the op log proves.",
        "partition",
    ),
    "halfhitch_replay_seconds": _histogram(
        "From being assigned a half partition until work begins.", _REPLAY_S
    ),
    "halfhitch_replayed_records_total": _counter("Records read again at takeovers."),
}

_OWNED = {
    "halfhitch_parked_open_transactions": _gauge(
        "Transactions that lie on the parked topic and were not put back, as of the last minute or "
        "two; told by the instance that works on half partition 0, missing on the others."
    ),
    "halfhitch_unreadable_records": _gauge(
        "Records behind an open Kafka transaction: high watermark minus last stable offset. Of "
        "half and op topic always, of targets while they are held.",
        "topic",
        "partition",
    ),
    "halfhitch_half_messages": _gauge(
        "Transactions without a decision, in owned half partitions.", "partition"
    ),
    "halfhitch_pending_transactions": _gauge(
        "Transactions without a decision, by producer group; the groups with fewest are `other`.",
        "group",
    ),
    "halfhitch_unreachable_transactions": _gauge(
        "Of these, those that nobody can be asked about: no producer of their group is connected "
        "here, and none elsewhere as far as Redis says.",
        "group",
    ),
    "halfhitch_group_oldest_undecided_age_seconds": _gauge(
        "Age of the oldest transaction without a decision, by producer group. Only of groups that "
        "have one among the 5,000 oldest of a half partition; missing when there is none.",
        "group",
    ),
    "halfhitch_connected_producers": _gauge(
        "Ways to ask a producer group that are open here: check streams, connections of RocketMQ "
        "clients, the callback address. 0 for a group that has undecided transactions here and no "
        "producer.",
        "group",
    ),
    "halfhitch_oldest_undecided_age_seconds": _gauge(
        "Age of the oldest transaction without a decision; 0 when there is none.", "partition"
    ),
    "halfhitch_due_checks": _gauge(
        "Transactions whose next check is due and has not been sent.", "partition"
    ),
    "halfhitch_checks_in_flight": _gauge("Transactions with a check under way.", "partition"),
    "halfhitch_decided_transactions": _gauge(
        "Transactions decided but not yet carried out.", "partition"
    ),
    "halfhitch_waiting_transactions": _gauge(
        "Decided transactions that wait for a target topic that is away.", "partition"
    ),
    "halfhitch_early_decisions": _gauge(
        "Decisions whose half message has not been seen yet.", "partition"
    ),
    "halfhitch_finished_transactions": _gauge(
        "Finished transactions remembered to recognise duplicates.", "partition"
    ),
    "halfhitch_half_replay_records": _gauge(
        "Half records a takeover would read again: position minus watermark.", "partition"
    ),
    "halfhitch_op_replay_records": _gauge(
        "Op records a takeover would read again: position minus watermark.", "partition"
    ),
    "halfhitch_owner_lag_seconds": _gauge(
        "How far the owner of the half partition is behind its logs.", "partition"
    ),
    "halfhitch_clock_ahead_seconds": _gauge(
        "This machine's clock minus that of the half partition's broker; negative: behind it.",
        "partition",
    ),
    "halfhitch_partition_owned": _gauge(
        "1 while this instance works on the half partition, 0 while it only tries to or does not"
        " own it. A half partition with 0 on all instances has no owner.",
        "partition",
    ),
    "halfhitch_membership_joined": _gauge(
        "1 while this instance is in the owners' group, 0 while it waits to be taken in; missing"
        " with owner.enabled=false."
    ),
    "halfhitch_membership_outside_seconds": _gauge(
        "For so long this instance has been outside the owners' group and can own nothing; 0 in it."
    ),
    "halfhitch_partition_phase": _gauge(
        "1 for the phase an owned half partition is in, 0 for the others.", "partition", "phase"
    ),
}

_KAFKA = {
    "halfhitch_kafka_append_seconds": _histogram(
        "From handing records of one partition to Kafka's client until all of them are answered: "
        "halves, decisions, plain messages; not those of native threads.",
        _REQUEST_S,
    ),
    "halfhitch_kafka_queued_records": _gauge(
        "Such records that wait for Kafka or are on their way."
    ),
}

_PROCESS = {
    "halfhitch_event_loop_lag_seconds": _gauge(
        "How late the event loop last ran what was due: high when it is busy or blocked."
    ),
    "halfhitch_build_info": _gauge("Always 1; says what is running.", "version", "python"),
}

#: By what they tell of, as docs/metrics.md has them.
SECTIONS: dict[str, dict[str, Metric]] = {
    "Doors": _DOORS,
    "Transactions, as callers see them": _CALLERS,
    "The check-back": _CHECKS,
    "What owners of half partitions do": _OWNERS,
    "What is owned, at the time of the scrape": _OWNED,
    "Kafka's client": _KAFKA,
    "The process": _PROCESS,
}
METRICS: dict[str, Metric] = {name: row for rows in SECTIONS.values() for name, row in rows.items()}
