"""What goes on inside: half partitions and their owners, doors, Kafka's client, the process."""

from __future__ import annotations

from typing import Final

from asking import WINDOW, per, quantiles, rate
from grafana import Dashboard, Panel, Query, Row

_NO_DOOR: Final = "rocketmq.enabled is off"
_NO_IDENTITIES: Final = "auth.identities_file is not set"

PARTITIONS: Final = Dashboard(
    "partitions",
    "Partitions",
    (
        Row(
            "Who owns what",
            (
                Panel(
                    "Owned",
                    "1 while somebody works on the half partition.",
                    "none",
                    (per("halfhitch_partition_owned", "partition"),),
                ),
                Panel(
                    "Outside the group",
                    "Seconds since an instance was last in the owners' group. Runbook: "
                    "HalfHitchOutsideItsGroup.",
                    "s",
                    (per("halfhitch_membership_outside_seconds", "instance"),),
                ),
                Panel(
                    "Takeovers",
                    "An hour; and such to which Kafka gave old watermarks.",
                    "none",
                    (
                        Query("sum(increase(halfhitch_takeovers_total[1h]))", "takeovers"),
                        Query(
                            "sum(increase(halfhitch_old_watermarks_total[1h]))", "old watermarks"
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Do they keep up",
            (
                Panel(
                    "Owner lag",
                    "How far the owner is behind its logs. Runbook: HalfHitchBehind.",
                    "s",
                    (per("halfhitch_owner_lag_seconds", "partition"),),
                ),
                Panel(
                    "Decided, not carried out",
                    "Transactions; and of them those that wait for a target that is away.",
                    "none",
                    (
                        Query(
                            "max by (partition) (halfhitch_decided_transactions)", "{{partition}}"
                        ),
                        Query(
                            "max by (partition) (halfhitch_waiting_transactions)",
                            "{{partition}}, target away",
                        ),
                    ),
                ),
                Panel(
                    "To replay",
                    "Records that a takeover would read again.",
                    "none",
                    (
                        Query(
                            "max by (partition) (halfhitch_half_replay_records)",
                            "half {{partition}}",
                        ),
                        Query(
                            "max by (partition) (halfhitch_op_replay_records)", "op {{partition}}"
                        ),
                    ),
                ),
                Panel(
                    "Kafka transactions",
                    "Of owners, a second, by how they ended.",
                    "ops",
                    (Query(rate("halfhitch_kafka_transactions_total", "outcome"), "{{outcome}}"),),
                ),
                Panel(
                    "Kafka transaction",
                    "From beginning one to knowing its end.",
                    "s",
                    quantiles("halfhitch_kafka_transaction_seconds", "outcome"),
                ),
                Panel(
                    "Takeover",
                    "From being assigned a half partition until work begins.",
                    "s",
                    quantiles("halfhitch_replay_seconds"),
                ),
            ),
        ),
        Row(
            "What went wrong",
            (
                Panel(
                    "Producers replaced",
                    "An hour, and such that hang now. Runbooks: HalfHitchRecyclesProducers, "
                    "HalfHitchProducerHangs.",
                    "none",
                    (
                        Query(
                            "sum by (partition) (increase(halfhitch_producers_recycled_total[1h]))",
                            "{{partition}}",
                        ),
                        Query("sum(halfhitch_left_producers)", "hang"),
                    ),
                ),
                Panel(
                    "Hidden records",
                    "Behind open Kafka transactions, by log. Runbook: "
                    "HalfHitchKafkaTransactionHangs.",
                    "none",
                    (
                        Query(
                            "max by (topic, partition) (halfhitch_unreadable_records)",
                            "{{topic}}-{{partition}}",
                        ),
                    ),
                    rare="nothing was hidden since the start",
                ),
                Panel(
                    "Clocks",
                    "An instance's clock minus that of a half partition's broker. Runbook: "
                    "HalfHitchClockWrong.",
                    "s",
                    (per("halfhitch_clock_ahead_seconds", "partition, instance"),),
                ),
                Panel(
                    "Targets away, unreadable records",
                    "How often in an hour a target took nothing in time; records passed over.",
                    "none",
                    (
                        Query("sum(increase(halfhitch_targets_away_total[1h]))", "targets away"),
                        Query(
                            "sum by (log) (increase(halfhitch_garbage_records_total[1h]))",
                            "garbage in {{log}}",
                        ),
                        Query(
                            "sum(increase(halfhitch_unknown_decisions_total[1h]))",
                            "decisions of nothing known",
                        ),
                    ),
                ),
            ),
        ),
    ),
)

DOORS: Final = Dashboard(
    "doors",
    "Doors and process",
    (
        Row(
            "Data door",
            (
                Panel(
                    "Requests",
                    "A second, by route.",
                    "reqps",
                    (Query(rate("halfhitch_http_requests_total", "route"), "{{route}}"),),
                ),
                Panel(
                    "Errors",
                    "Answers with a status from 400 on, a second.",
                    "reqps",
                    (
                        Query(
                            rate('halfhitch_http_requests_total{status=~"[45].."}', "status"),
                            "{{status}}",
                        ),
                    ),
                ),
                Panel(
                    "Latency",
                    "One in a hundred requests takes longer; by route.",
                    "s",
                    quantiles("halfhitch_http_request_seconds", "route"),
                ),
                Panel(
                    "Turned away",
                    "Connections, and requests without a valid token, a second.",
                    "ops",
                    (
                        Query(
                            rate("halfhitch_refused_connections_total", "door, reason"),
                            "{{door}}: {{reason}}",
                        ),
                        Query(rate("halfhitch_unauthorized_total", "door"), "no token: {{door}}"),
                    ),
                ),
                Panel(
                    "Identities",
                    "Requests refused for lack of a right, or too many in a second.",
                    "ops",
                    (
                        Query(
                            rate("halfhitch_forbidden_total", "identity, right"),
                            "{{identity}}: {{right}}",
                        ),
                        Query(
                            rate("halfhitch_too_many_requests_total", "identity"),
                            "{{identity}}: too many",
                        ),
                    ),
                    rare=_NO_IDENTITIES,
                ),
            ),
        ),
        Row(
            "RocketMQ door",
            (
                Panel(
                    "Requests",
                    "A second, by request.",
                    "reqps",
                    (Query(rate("halfhitch_rocketmq_requests_total", "request"), "{{request}}"),),
                    rare=_NO_DOOR,
                ),
                Panel(
                    "Connections",
                    "Of RocketMQ clients, and the producer groups on them.",
                    "none",
                    (
                        Query("sum(halfhitch_rocketmq_connections)", "connections"),
                        Query("sum(halfhitch_rocketmq_producers)", "producers"),
                        Query("sum(halfhitch_rocketmq_in_flight_requests)", "under way"),
                    ),
                    rare=_NO_DOOR,
                ),
                Panel(
                    "Refused",
                    "Messages because too much was under way; ends that failed without their "
                    "producer's knowing; a second.",
                    "ops",
                    (
                        Query(
                            rate("halfhitch_rocketmq_busy_answers_total", "reason"),
                            "busy: {{reason}}",
                        ),
                        Query(
                            rate("halfhitch_rocketmq_failed_oneway_ends_total", "code"),
                            "end: {{code}}",
                        ),
                    ),
                    rare=_NO_DOOR,
                ),
            ),
        ),
        Row(
            "Kafka and the process",
            (
                Panel(
                    "Appends",
                    "From handing records to Kafka's client until they are answered.",
                    "s",
                    quantiles("halfhitch_kafka_append_seconds"),
                ),
                Panel(
                    "Waiting for Kafka",
                    "Records in memory or on their way.",
                    "none",
                    (per("halfhitch_kafka_queued_records", "instance"),),
                ),
                Panel(
                    "Event loop",
                    "How late it last ran what was due. Runbook: HalfHitchLoopLate.",
                    "s",
                    (per("halfhitch_event_loop_lag_seconds", "instance"),),
                ),
                Panel(
                    "Processor",
                    "Cores in use.",
                    "none",
                    (
                        Query(
                            f"rate(process_cpu_seconds_total{WINDOW}) "
                            "and on (namespace, instance) halfhitch_build_info",
                            "{{instance}}",
                        ),
                    ),
                ),
                Panel(
                    "Memory",
                    "Resident.",
                    "bytes",
                    (
                        Query(
                            "process_resident_memory_bytes "
                            "and on (namespace, instance) halfhitch_build_info",
                            "{{instance}}",
                        ),
                    ),
                ),
                Panel(
                    "Open files",
                    "Of those that the process may have.",
                    "percentunit",
                    (
                        Query(
                            "process_open_fds / process_max_fds "
                            "and on (namespace, instance) halfhitch_build_info",
                            "{{instance}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)
