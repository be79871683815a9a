"""Why a transaction is where it is, what happens next and what can be done: in sentences.

Pure: takes what the sidecar has shown, gives lines.
"""

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any

from halfhitch_cli.selection import age

_ANSWERS = {
    "commit": "commit (the decision is on its way)",
    "rollback": "rollback (the decision is on its way)",
    "unknown": "it cannot say yet",
    "silent": "none in time",
    "no_answer": "something that is no answer (an error of the callback)",
    "decided": "a decision came first",
    "lost": "the connection broke before one came",
    "undelivered": "it could not be delivered",
}
_GIVE_UP = {
    "park": "its messages are parked: kept, listed by `halfhitch parked list`, to be resumed",
    "rollback": "it is rolled back",
    "commit": "it is committed",
}
_PARKED = {
    "undeliverable": "It was committed, but one of its topics does not take the message",
    "checks_exhausted": "As many checks as allowed reached a producer, and none brought a decision",
    "too_old": "Nobody decided it before it reached the age limit",
    "incomplete": "It was committed, but some of its messages never arrived",
    "late": "It was added when its transaction had been given up, and not put back with the others",
}
_DECIDED_BY = {
    "producer": "its producer",
    "check": "a producer that was asked",
    "operator": "an operator",
    "policy": "the give-up policy",
    None: "the record does not say who (an older release wrote it)",
}
_ON_RESUME = {
    "commit": "a commit is on record for it and is carried out at once",
    "rollback": "a rollback is on record for it and is carried out at once: nothing is forwarded",
    None: "nobody has decided it: its producers are asked again, from the first check on",
}


def undecided(shown: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Of a pending transaction; `settings` are the sidecar's, by key."""
    place = f"it lies in half partition {shown['partition']}, invisible"
    lines = [
        f"{_what(shown)}, prepared {age(shown['age_s'])} ago; {place}.",
        "Its end has not arrived: neither a commit nor a rollback is on record.",
    ]
    if shown["from_index"]:
        lines.append("Another instance owns that partition: this is what Redis says of it.")
    lines += _checks(shown)
    limit_s = settings.get("checks.age_s_max")
    if not isinstance(limit_s, int | float):
        limit_s = 0  # of another release
    limit = f", or when it is {age(limit_s)} old" if limit_s else ""
    policy = _GIVE_UP.get(str(settings.get("checks.give_up")), "the give-up policy decides")
    if settings.get("checks.give_up_topics"):
        policy += " (unless checks.give_up_topics says otherwise for its topic)"
    if limit_s and shown["age_s"] >= limit_s:
        lines.append(
            f"It is older than {age(limit_s)} (checks.age_s_max): unless its producers say "
            f"at the next check what became of it, {policy}."
        )
    else:
        lines.append(f"After {shown['check_max']} checks that reached a producer{limit}, {policy}.")
    name = name_of(shown)
    lines.append(
        f"To ask now: halfhitch tx check {name}. To decide: halfhitch tx commit --reason '...' "
        f"{name}, or tx rollback."
    )
    return lines


def _checks(shown: Mapping[str, Any]) -> list[str]:
    group, count, next_s = shown["producer_group"], shown["check_count"], shown["next_check_s"]
    nobody = (
        f"No producer of group {group} is connected to any instance: nobody can be asked, and no "
        "check is counted meanwhile. Start one, or decide it yourself."
    )
    due = "now" if not next_s or next_s < 1 else f"in {age(next_s)}"
    if not count:
        if next_s is None:
            return ["It has not been checked.", nobody]
        return [f"It has not been checked; the first check is due {due}."]
    check = f"Check {count} of {shown['check_max']}"
    if shown["delivered"]:
        asked = f" ({shown['asked']})" if shown["asked"] else ""
        answer = _answer(shown, "none yet")
        lines = [f"{check} has reached a producer{asked}; its answer: {answer}."]
        return [*lines, nobody if next_s is None else f"The next check is due {due}."]
    again = "it is sent again under the same number"
    lines = [f"{check} is on record, but is not known to have reached a producer: {again}."]
    return [*lines, nobody] if next_s is None else lines


def parked(shown: Mapping[str, Any]) -> list[str]:
    """Of a parked transaction."""
    why = _PARKED.get(shown["reason"], f"It was given up ({shown['reason']})")
    has_more = shown["detail"] and shown["reason"] not in ("checks_exhausted", "too_old")
    detail = f": {shown['detail']}" if has_more else ""
    lines = [
        f"{_what(shown)}; it lies on the parked topic, whole, and nothing happens to it by itself.",
        f"{why}{detail}.",
    ]
    if shown["check_count"]:
        answer = _answer(shown, "none")
        asked = f" ({shown['asked']})" if shown["asked"] else ""
        lines.append(f"Checks: {shown['check_count']}; the last answer{asked}: {answer}.")
    if shown["resumed_count"]:
        lines.append(f"It was put back {shown['resumed_count']} time(s) before, and parked again.")
    lines.append(f"When it is resumed: {_ON_RESUME.get(shown['decision'], shown['decision'])}.")
    if shown["decision"]:
        who = _DECIDED_BY.get(shown.get("decision_source"), "the record names nobody known here")
        words = shown.get("decision_reason")
        lines.append(f"Decided by: {who}. Reason given: {_quoted(words) if words else 'none'}.")
    if shown["reason"] == "undeliverable":
        lines.append("Set the topic right first, or it will be parked again.")
    if shown["reason"] == "incomplete":
        lines.append(
            "Put back, it waits for the missing messages again, and is parked again without them. "
            "To send what is there: halfhitch parked export, and a producer of your own."
        )
    lines.append(
        f"To put it back: halfhitch parked resume --reason '...' {name_of(shown)}. To see or keep "
        f"its messages: halfhitch parked show, or parked export."
    )
    return lines


def _answer(shown: Mapping[str, Any], none: str) -> str:
    """In words, and with the reason that was given for it."""
    answer = _ANSWERS.get(shown["last_answer"] or "", shown["last_answer"] or none)
    reason = shown.get("last_reason")
    return f"{answer}, because: {_quoted(reason)}" if reason else answer


def _quoted(text: str) -> str:
    """Somebody's own words, which may look like ours: it is seen where they begin and end."""
    return json.dumps(text, ensure_ascii=False)


def _what(shown: Mapping[str, Any]) -> str:
    count = shown["message_count"]
    messages = "1 message" if count == 1 else f"{count} messages"
    topics = ", ".join(shown["topics"])
    where = f" for {topics}" if topics else ""
    return (
        f"Transaction {shown['transaction_id']} of group {shown['producer_group']}: "
        f"{messages}{where}"
    )


def name_of(shown: Mapping[str, Any]) -> str:
    """As `halfhitch tx` and `halfhitch parked` take it, at the end of a line: with `--` in it."""
    transaction_id = quote(shown["transaction_id"])
    dashes = "-- " if transaction_id.startswith("-") else ""
    return f"--group {quote(shown['producer_group'])} {dashes}{transaction_id}"
