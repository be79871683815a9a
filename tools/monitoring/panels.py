"""What the dashboards show: questions of somebody on call, each answered by a panel or two.

A dashboard is added by a name in DASHBOARDS.
"""

from __future__ import annotations

from typing import Final

from asking import per, quantiles, rate
from grafana import Dashboard, Panel, Query, Row
from inside import DOORS, PARTITIONS
from streams import STREAMS

_QUIET: Final = "nothing of the kind has happened"

_OVERVIEW: Final = Dashboard(
    "overview",
    "Overview",
    (
        Row(
            "Is anything wrong?",
            (
                Panel(
                    "Without owner",
                    "Half partitions that stand still. Runbook: HalfHitchPartitionWithoutOwner.",
                    "none",
                    (Query("sum(1 - max by (partition) (halfhitch_partition_owned))"),),
                    kind="stat",
                    red=1,
                ),
                Panel(
                    "Undecided",
                    "Transactions without a decision: stored, invisible.",
                    "none",
                    (Query("sum(halfhitch_half_messages)"),),
                    kind="stat",
                ),
                Panel(
                    "Oldest undecided",
                    "Runbook: HalfHitchUndecidedForLong.",
                    "s",
                    (Query("max(halfhitch_oldest_undecided_age_seconds)"),),
                    kind="stat",
                    red=3600,
                ),
                Panel(
                    "Nobody to ask",
                    "Undecided, and no producer of their group. Runbook: HalfHitchNobodyToAsk.",
                    "none",
                    (Query("sum(halfhitch_unreachable_transactions)"),),
                    kind="stat",
                    red=1,
                    rare="nothing is undecided",
                ),
                Panel(
                    "Parked",
                    "Given up or undeliverable, and not put back. Runbook: HalfHitchParks.",
                    "none",
                    (Query("max(halfhitch_parked_open_transactions)"),),
                    kind="stat",
                    red=1,
                ),
                Panel(
                    "Hidden records",
                    "For a minute and longer. Runbook: HalfHitchKafkaTransactionHangs.",
                    "none",
                    (Query("sum(min_over_time(halfhitch_unreadable_records[1m]))"),),
                    kind="stat",
                    red=1,
                    rare="nothing was hidden since the start",
                ),
            ),
        ),
        Row(
            "What goes through",
            (
                Panel(
                    "Prepared and decided",
                    "Transactions a second.",
                    "ops",
                    (
                        Query(rate("halfhitch_prepared_transactions_total"), "prepared"),
                        Query(rate("halfhitch_decisions_total", "resolution"), "{{resolution}}"),
                    ),
                ),
                Panel(
                    "Who decides",
                    "Decisions a second, by source. Much `check` means that ends get lost.",
                    "ops",
                    (Query(rate("halfhitch_decisions_total", "source"), "{{source}}"),),
                ),
                Panel(
                    "Messages by topic",
                    "That became visible, a second; the ten topics with most.",
                    "ops",
                    (
                        Query(
                            f"topk(10, {rate('halfhitch_topic_messages_total', 'topic')})",
                            "{{topic}}",
                        ),
                    ),
                ),
                Panel(
                    "Commit to visible",
                    "From a commit's broker time until its messages could be read.",
                    "s",
                    quantiles("halfhitch_visible_latency_seconds"),
                ),
                Panel(
                    "Prepare",
                    "From a prepare's arrival until all its halves are stored.",
                    "s",
                    quantiles("halfhitch_prepare_seconds"),
                ),
                Panel(
                    "Decide",
                    "From an end's arrival until it is durable.",
                    "s",
                    quantiles("halfhitch_decide_seconds", "resolution"),
                ),
            ),
        ),
        Row(
            "What does not",
            (
                Panel(
                    "Refused",
                    "Prepares and ends answered with an error, a second, by code.",
                    "ops",
                    (
                        Query(
                            f"{rate('halfhitch_prepare_refused_total', 'code')} > 0",
                            "prepare {{code}}",
                        ),
                        Query(f"{rate('halfhitch_end_refused_total', 'code')} > 0", "end {{code}}"),
                    ),
                    rare=_QUIET,
                ),
                Panel(
                    "Conflicts and lost stories",
                    "What lost against an earlier decision; entries that the audit topic did not "
                    "take. Runbooks: HalfHitchConflicts, HalfHitchStoriesLost.",
                    "ops",
                    (
                        Query(rate("halfhitch_conflicts_total", "kind"), "{{kind}}"),
                        Query(rate('halfhitch_audit_entries_total{outcome="lost"}'), "story lost"),
                    ),
                ),
                Panel(
                    "Dropped and parked",
                    "Messages a second.",
                    "ops",
                    (
                        Query(rate("halfhitch_rollback_messages_total"), "rolled back"),
                        Query(rate("halfhitch_parked_messages_total"), "parked"),
                    ),
                ),
            ),
        ),
    ),
)

_CHECKS: Final = Dashboard(
    "checks",
    "Checks",
    (
        Row(
            "Who is undecided",
            (
                Panel(
                    "Undecided by group",
                    "Transactions without a decision.",
                    "none",
                    (per("halfhitch_pending_transactions", "group", "sum"),),
                    rare="nothing is undecided",
                ),
                Panel(
                    "Oldest by group",
                    "Age of the oldest transaction without a decision.",
                    "s",
                    (per("halfhitch_group_oldest_undecided_age_seconds", "group"),),
                    rare="nothing is undecided",
                ),
                Panel(
                    "Producers and whom nobody can ask",
                    "Ways to ask a group, over all instances; transactions of groups without any.",
                    "none",
                    (
                        Query("sum by (group) (halfhitch_connected_producers)", "{{group}}"),
                        Query(
                            "sum by (group) (halfhitch_unreachable_transactions) > 0",
                            "nobody to ask: {{group}}",
                        ),
                    ),
                    rare="no producer is connected, or everybody can be asked",
                ),
            ),
        ),
        Row(
            "How they are asked",
            (
                Panel(
                    "Due and under way",
                    "Transactions whose check is due and not sent, or on its way.",
                    "none",
                    (
                        Query("sum(halfhitch_due_checks)", "due"),
                        Query("sum(halfhitch_checks_in_flight)", "under way"),
                    ),
                ),
                Panel(
                    "Checks and their outcomes",
                    "A second. `silent` and `unknown` are the producers' own.",
                    "ops",
                    (
                        Query(rate("halfhitch_checks_sent_total"), "sent"),
                        Query(rate("halfhitch_check_outcomes_total", "outcome"), "{{outcome}}"),
                    ),
                ),
                Panel(
                    "Check lag",
                    "From the moment a check was due until it was handed to a producer. Runbook: "
                    "HalfHitchChecksLate.",
                    "s",
                    quantiles("halfhitch_check_lag_seconds"),
                ),
                Panel(
                    "Time to answer",
                    "From the moment a check was handed to a producer until its answer was here.",
                    "s",
                    quantiles("halfhitch_check_answer_seconds", "outcome"),
                    rare="no check was answered",
                ),
                Panel(
                    "Given up",
                    "Transactions a second, by what became of them.",
                    "ops",
                    (
                        Query(
                            rate("halfhitch_given_up_transactions_total", "policy, reason"),
                            "{{policy}}: {{reason}}",
                        ),
                    ),
                ),
                Panel(
                    "Parked now",
                    "Transactions; and how many are parked and put back a minute.",
                    "none",
                    (
                        Query("max(halfhitch_parked_open_transactions)", "parked"),
                        Query(f"60 * {rate('halfhitch_parked_transactions_total')}", "a minute"),
                        Query(f"60 * {rate('halfhitch_resumed_transactions_total')}", "put back"),
                    ),
                ),
                Panel(
                    "Redis",
                    "1 while it takes what is written; how often all had to be written anew. "
                    "Runbook: HalfHitchRedisAway.",
                    "none",
                    (
                        Query("min by (instance) (halfhitch_redis_up)", "{{instance}}"),
                        Query(rate("halfhitch_redis_rebuilds_total", "reason"), "{{reason}}"),
                    ),
                    rare="redis.url is not set",
                ),
            ),
        ),
    ),
)

DASHBOARDS: Final = (_OVERVIEW, _CHECKS, PARTITIONS, DOORS, STREAMS)
