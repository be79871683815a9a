"""Faults of the product that were found, and what finds them when they are put back.

Owns `FINDINGS`. A finding has at least one test that is red while the fault is there;
test_findings.py looks whether all that is named exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    what: str
    #: Tests by file and name, as pytest has them.
    tests: tuple[str, ...] = ()
    #: Mutations of the simulations: functions of tests/simulation/test_*goes_red.py.
    mutations: tuple[str, ...] = ()
    #: Scenarios of this kit.
    scenarios: tuple[str, ...] = ()
    #: Runs of the scenarios until one was red, on the code before the repair.
    runs: str = ""


def _in(path: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{path}::test_{name}" for name in names)


_LATE_COMMIT = "a_late_commit_is_harmless_however_often_the_link_broke_while_the_producer_was_made"

FINDINGS: tuple[Finding, ...] = (
    Finding(
        "After a group coordinator was killed Kafka gave watermarks of seven minutes before. Both "
        "logs had been trimmed beyond them, so the half partition stood until a person came, "
        "though nothing was lost.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_proven_pair.py",
                "a_partition_stood_because_kafka_gave_old_watermarks",
            ),
            *_in(
                "tests/unit/service/owner/test_trimming.py",
                "the_proof_of_a_pair_lies_above_all_that_is_deleted_with_it",
            ),
            *_in(
                "tests/integration/test_ownership_watermarks.py",
                "old_watermarks_below_the_logs_stop_nobody_and_doctor_says_so",
            ),
        ),
        mutations=(
            "old_watermarks_stop_the_partition",
            "an_older_proven_pair_is_taken",
            "what_no_op_record_proves_is_deleted",
        ),
        scenarios=("watermarks-old",),
        runs="red in 1 of 1",
    ),
    Finding(
        "A takeover took the last stable offset for the end of the op log; with a resume of "
        "parked messages open it forwarded again what had been forwarded behind it.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_takeover.py",
                "a_takeover_does_not_forward_again_what_was_done_behind_an_open_resume",
            ),
        ),
        mutations=("the_readable_end_is_taken_for_the_end",),
        scenarios=(
            "resume-kill",
            "resume-owner-stop",
        ),
        runs="red in 1 of 1, each (10 doubled, 1 doubled)",
    ),
    Finding(
        "A commit by a check or an operator covered the messages that had been counted when the "
        "question was asked; what was added and acknowledged meanwhile was dropped.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_coverage.py",
                "what_was_added_while_a_question_was_out_is_not_dropped_by_its_answer",
                "a_commit_for_somebody_waits_for_what_is_stored_and_not_read_yet",
            ),
        ),
        mutations=("an_answer_covers_what_its_question_knew",),
        scenarios=("apps-slow",),
        runs="red in 1 of 1 (10 lost)",
    ),
    Finding(
        "A message that was added and acknowledged after its transaction was given up, through an "
        "instance that did not own it, got a mark and was not parked with the others.",
        tests=(
            *_in(
                "tests/unit/core/test_late_messages.py",
                "what_is_added_after_the_giving_up_is_parked_once",
                "a_replay_parks_it_if_nobody_has",
            ),
        ),
        mutations=("what_is_added_to_a_given_up_one_is_dropped",),
    ),
    Finding(
        "Neither `verify` nor the checker of these runs saw acknowledged messages that a commit "
        "had left out: both counted against the owner's own mark.",
        tests=(
            *_in(
                "chaos/tests/test_checker.py",
                "what_is_spoiled_is_found",
            ),
            *_in(
                "tests/unit/verify/test_judge.py",
                "a_message_that_its_commit_left_out_tears_the_transaction",
            ),
        ),
    ),
    Finding(
        "`verify` said clean with nothing judged: one partition that was trimmed and held nothing "
        "of ours excused every loss on its topic, and one compacted topic all on others.",
        tests=(
            *_in(
                "tests/unit/verify/test_excuses.py",
                "fifty_losses_were_clean_because_one_partition_had_nothing_of_ours",
                "a_trimmed_partition_excused_what_was_lost_on_another_one",
                "compaction_excused_what_no_later_record_had_replaced",
            ),
            *_in(
                "tests/unit/cli/commands/test_verify.py",
                "clean_was_said_with_every_committed_transaction_lost_and_none_judged",
            ),
        ),
    ),
    Finding(
        "`verify` called a commit torn that had lawfully left out a message whose add had failed.",
        tests=_in(
            "tests/unit/verify/test_endings.py",
            "a_message_whose_add_was_never_acknowledged_was_called_torn",
        ),
    ),
    Finding(
        "`verify` did not see a transaction that was parked in part, or changed, or committed "
        "after its roll back; the checker did not see one that was rolled back and parked, nor the "
        "soak's judge one that was parked in part.",
        tests=(
            *_in(
                "tests/unit/verify/test_excuses.py",
                "a_transaction_that_was_parked_in_part_was_clean",
                "a_parked_message_that_is_another_one_was_clean",
            ),
            *_in(
                "tests/unit/verify/test_endings.py",
                "halves_marked_as_rolled_back_and_as_committed_were_clean",
                "a_commit_carried_out_though_a_roll_back_came_first_was_clean",
            ),
            *_in("chaos/tests/test_losses.py", "what_is_seeded_is_found"),
            *_in("chaos/tests/test_soak.py", "what_is_spoiled_is_found"),
        ),
    ),
    Finding(
        "After two resets while a producer was made the guard did not hear the third, for "
        "Kafka's client tells the same thing twice only; a late EndTxn committed half of the "
        "next step.",
        tests=(
            *_in(
                "chaos/promises/test_end_txn_hold.py",
                _LATE_COMMIT,
            ),
            *_in(
                "tests/unit/adapters/kafka/test_guard.py",
                "a_line_that_librdkafka_suppresses_is_heard_all_the_same",
            ),
        ),
        mutations=("the_guard_goes_deaf",),
    ),
    Finding(
        "The right to write to one target was revoked, the right to describe it was left: no "
        "step of its half partitions was committed any more.",
        tests=(
            *_in(
                "tests/integration/test_refused_writes.py",
                "a_revoked_right_to_write_stops_nobody_else_though_the_topic_can_be_described",
            ),
        ),
        mutations=("a_refused_write_is_judged_by_what_can_be_described",),
        scenarios=("target-rights-revoked",),
        runs="red in 1 of 1",
    ),
    Finding(
        "An owner with a smaller message limit, or fewer allowed topics, than the instance that "
        "took a message could neither forward nor park it, or parked it without need.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_refusals.py",
                "what_another_instance_took_is_forwarded_whatever_the_owner_would_have_taken",
            ),
            *_in(
                "tests/contract/test_partition_log.py",
                "a_writer_takes_what_any_door_may_have_taken",
            ),
        ),
        mutations=(
            "owners_take_what_their_own_doors_take",
            "owners_forward_to_what_their_own_doors_allow",
        ),
        scenarios=("owner-stricter",),
        runs="red in 1 of 1",
    ),
    Finding(
        "What the parked topic did not take was tried again at once and for ever, and nobody "
        "else of that half partition got on.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_refusals.py",
                "what_can_neither_be_forwarded_nor_parked_waits_alone",
            ),
        ),
        mutations=("what_the_parked_topic_refuses_is_tried_at_once_again",),
        scenarios=("parked-limit-lowered",),
        runs="red in 1 of 1",
    ),
    Finding(
        "While an open Kafka transaction of anybody held a log, acknowledged commits ran out, "
        "commits of one key changed places, and producers were asked about what was decided.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_open_transactions.py",
                "nobody_is_asked_whose_decision_lies_behind_an_open_kafka_transaction",
            ),
            *_in(
                "tests/unit/service/owner/test_feeding.py",
                "commits_keep_their_order_while_the_half_of_the_first_cannot_be_read",
                "a_commit_whose_half_cannot_be_read_yet_does_not_run_out",
            ),
        ),
        mutations=("what_can_be_read_is_taken_for_what_exists",),
        scenarios=(
            "op-stranger",
            "op-stranger-takeover",
        ),
        runs="red in 1 of 1, each (the asking)",
    ),
    Finding(
        "The half topic did not take a copy for a check: no check of that half partition left "
        "any more, and transactions of users were blamed for it.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_refusals.py",
                "no_transaction_is_condemned_for_what_our_own_topics_refuse",
            ),
            *_in(
                "tests/unit/service/owner/test_copying.py",
                "a_copy_that_the_half_topic_refuses_holds_back_no_other_check_and_no_commit",
            ),
        ),
        mutations=(
            "a_copy_that_is_refused_fails_the_steps_of_all",
            "what_our_own_topics_refuse_is_blamed_on_transactions",
        ),
        scenarios=("half-limit-undecided",),
        runs="red in 1 of 1",
    ),
    Finding(
        "An owner that lagged steadily by more than a second asked nobody.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_open_transactions.py",
                "checks_go_on_with_a_steady_lag",
            ),
        ),
        scenarios=("owner-lags",),
        runs="red in 1 of 1",
    ),
    Finding(
        "An owner compared stored watermarks to see whether somebody else had written; they "
        "stand still where one old transaction is pending.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_turn_refusals.py",
                "a_stranger_that_writes_is_noticed_although_no_watermark_moves",
            ),
            *_in(
                "tests/contract/test_partition_log.py",
                "every_write_leaves_its_stamp_though_no_watermark_moves",
            ),
        ),
        mutations=("unknown_is_taken_for_failed_and_only_watermarks_are_compared",),
    ),
    Finding(
        "A group that ended nothing, or an owner that could not keep up, filled the memory of "
        "everybody.",
        tests=(
            *_in(
                "tests/integration/test_bounds.py",
                "a_hog_is_refused_and_all_others_go_on",
                "an_owner_that_cannot_keep_up_is_given_less",
            ),
        ),
    ),
    Finding(
        "A transaction id that was used for other messages collapsed into the first ones.",
        tests=(
            *_in(
                "tests/unit/service/transactions/test_prepare_reusing.py",
                "other_messages_under_an_id_are_refused_before_anything_is_stored",
            ),
        ),
    ),
    Finding(
        "After an outage of Kafka a member whose joining had been forgotten waited for minutes, "
        "and half partitions had no owner.",
        tests=(
            *_in(
                "tests/integration/test_ownership_outages.py",
                "an_outage_after_which_a_joining_is_forgotten_is_over_within_session_and_5_s",
            ),
            *_in(
                "tests/unit/adapters/kafka/test_membership.py",
                "a_client_that_joins_and_joins_and_gets_no_answer_is_replaced_by_another",
            ),
        ),
    ),
    Finding(
        "A record of a newer release stopped a half partition for as long as an older instance "
        "owned it, and the older instance kept it.",
        tests=(
            *_in(
                "tests/unit/service/owner/test_worker.py",
                "a_record_of_a_newer_release_is_told_and_the_partition_does_not_work_on",
            ),
            *_in(
                "tests/integration/test_mixed_releases.py",
                "an_older_owner_gives_everything_to_the_one_that_can_read_it",
            ),
            *_in(
                "tests/unit/adapters/kafka/test_membership.py",
                "a_member_that_cannot_read_what_it_owns_leaves_and_does_not_come_back",
            ),
        ),
    ),
)

_TEXT = (
    "What was found and repaired, and what turns red when it is put back. A test is red at once. A"
    " mutation of the simulations must be red within 400 lives. Scenarios are named as in the table"
    " below; their runs were counted on the code as it was before the repair."
)


def finding_lines() -> list[str]:
    """The section of docs/reliability.md."""
    lines = [
        "## Findings",
        "",
        _TEXT,
        "",
        "| finding | found by | runs it took |",
        "|---|---|---|",
    ]
    for finding in FINDINGS:
        found_by = [f"scenario {name}" for name in finding.scenarios]
        found_by += [f"mutation `{name}`" for name in finding.mutations]
        found_by += [f"`{test}`" for test in finding.tests]
        lines.append(f"| {finding.what} | {'; '.join(found_by)} | {finding.runs} |")
    return [*lines, ""]
