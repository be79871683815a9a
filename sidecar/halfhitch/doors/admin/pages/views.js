// The views but for one transaction's: what each asks the door, and what it makes of the answer.
//
// A view has load(parameters, signal) and draw(data, parameters, tools), and a filter bar if it has
// filters. Nothing is asked for twice: what a page shows is one or a few bounded requests.

import { get, getSeldom, mayOperate, operableGroups } from "./asking.js";
import { PAGE, filterBar, keyOf, pager, skipOf, table } from "./lists.js";
import { DASH, age, el, joined, list, maybe, moment, number, orDash, place, plural, seconds, stateClass, text, words } from "./shown.js";

const PARTS = new Set(["group", "topic", "id"]);
const DURATION = { pattern: "\\s*(\\d+(\\.\\d+)?[smhd])+\\s*", title: "30s, 10m, 2h, 3d" };
const COUNT = { pattern: "\\d{1,5}", title: "a whole number", inputmode: "numeric" };

/** The part of the address that the door filters by. */
export function queryOf(parameters) {
  const query = {};
  for (const name of PARTS) if (parameters[name]) query[name] = parameters[name];
  if (parameters.older) query.older_than_s = secondsOf(parameters.older);
  if (parameters.checks) query.min_checks = parameters.checks;
  return query;
}

function secondsOf(text) {
  const found = seconds(text);
  if (Number.isNaN(found)) throw new Error("A length of time is written 30s, 10m, 2h or 3d.");
  return found;
}

function traceOf(row) {
  return place("trace", { id: row.transaction_id, group: row.producer_group });
}

// Empty ids are no ids of ours, but what is stored is shown.
const idColumn = ["Transaction", (row) => el("a", { href: traceOf(row), class: "id" }, text(row.transaction_id) || "(empty)")];
const groupColumn = ["Group", (row) => text(row.producer_group)];
const topicsColumn = ["Topics", (row) => joined(row.topics)];

// -- overview --------------------------------------------------------------------------------------

/** What fails is told in its own place: the rest is worth seeing. */
async function tried(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.name === "AbortError" || error.status === 401) throw error;
    return { failure: error.message };
  }
}

const overview = {
  title: "Overview",
  async load(_, signal, isRepeat) {
    const [status, pending, parked, producers, ended] = await Promise.all([
      get("v1/status", {}, signal),
      tried(get("v1/transactions", { limit: 5 }, signal)),
      tried(get("v1/parked", { limit: 1 }, signal)),
      tried(get("v1/producers", {}, signal)),
      tried(getSeldom("v1/stories", { since_s: 3600, limit: 10 }, signal, isRepeat)),
    ]);
    return { status, pending, parked, producers, ended };
  },
  draw({ status, pending, parked, producers, ended }) {
    const troubles = [...list(status.reasons), ...list(status.degraded), ...list(status.partitions).flatMap((p) => list(p.troubles))];
    const alone = producers.failure ? "?" : orDash(() => list(producers.groups).filter((group) => group.undecided_count && isAlone(group)).length);
    const waiting = sum(status.partitions, "waiting_count");
    const oldest = pending.transactions?.[0];
    return [
      el(
        "div", { class: "cards" },
        card("Sidecar", readiness(status, troubles), status.ready !== true || troubles.length),
        card("Undecided", pending.failure ? "?" : number(pending.total_count), false, place("transactions")),
        card("Oldest", oldest ? age(oldest.age_s) : "none", false, oldest && traceOf(oldest)),
        card("Parked", parked.failure ? "?" : number(parked.total_count), parked.total_count > 0, place("parked")),
        card("Groups with nobody to ask", typeof alone === "number" ? number(alone) : alone, alone > 0, place("producers")),
        card("Waiting for a topic", number(waiting), waiting > 0, place("partitions")),
      ),
      failures({ pending, parked, producers, ended }),
      troubles.length ? el("ul", { class: "troubles" }, [...new Set(troubles)].map((trouble) => el("li", {}, trouble))) : "",
      missing(pending),
      el("h2", {}, "Oldest undecided"),
      table(pendingColumns, pending.failure ? [] : pending.transactions, { open: traceOf, empty: "Nothing is undecided." }),
      el("h2", {}, "Ended in the last hour"),
      table(endedColumns, ended.failure ? [] : ended.stories, { open: traceOf, empty: ended.trouble ?? (ended.is_cut ? "None among those that ended last: choose State: ended under Transactions." : "Nothing that is kept.") }),
      el("h2", {}, "This instance"),
      el("dl", {}, Object.entries(status.info).map(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? ""))])),
    ];
  },
};

function readiness(status, troubles) {
  if (typeof status.ready !== "boolean") return DASH;
  if (!status.ready) return "not ready";
  return troubles.length ? "ready, degraded" : "ready";
}

function card(label, value, isBad, to) {
  const inner = [el("span", { class: "label" }, label), el("span", { class: isBad ? "value bad" : "value" }, value)];
  return to ? el("a", { class: "card", href: to }, inner) : el("div", { class: "card" }, inner);
}

function failures(parts) {
  const told = Object.values(parts).filter((part) => part.failure);
  return told.length ? el("ul", { class: "troubles" }, told.map((part) => el("li", {}, part.failure))) : "";
}

function sum(rows, name) {
  return rows.reduce((total, row) => total + (Number.isFinite(row[name]) ? row[name] : NaN), 0);
}

function missing(page) {
  if (page.failure || !list(page.missing_partitions).length) return "";
  return el(
    "p", { class: "note bad" },
    `Not everything is shown: half partitions ${page.missing_partitions.map(number).join(", ")} are other instances', or are just being taken over, and Redis does not say all of them now.`,
  );
}

// -- transactions ----------------------------------------------------------------------------------

const pendingColumns = [
  idColumn,
  groupColumn,
  topicsColumn,
  ["Messages", (row) => number(row.message_count), "number"],
  ["Age", (row) => age(row.age_s), "number"],
  ["Checks", (row) => `${number(row.check_count)}/${number(row.check_max)}`, "number"],
  ["Next check", (row) => nextCheck(row), "number"],
  ["Last answer", (row) => [maybe(row.last_answer), row.last_reason ? el("span", { class: "why" }, ` ${text(row.last_reason)}`) : ""]],
  ["Asked", (row) => maybe(row.asked)],
];

function nextCheck(row) {
  if (row.next_check_s === null) return el("span", { class: "bad" }, "no producer");
  return row.next_check_s < 1 ? "now" : age(row.next_check_s);
}

const endedColumns = [
  ["Ended", (row) => moment(row.ended_ms), "time"],
  idColumn,
  groupColumn,
  ["State", (row) => el("span", { class: `state ${stateClass(row.state)}` }, words(row.state))],
  ["By", (row) => maybe(row.decided_by)],
  ["Checks", (row) => number(row.check_count), "number"],
  topicsColumn,
  ["Reason", (row) => maybe(row.reason)],
];

const transactions = {
  title: "Transactions",
  filters(parameters) {
    const isEnded = parameters.state === "ended";
    return filterBar("transactions", parameters, [
      ["state", "State", { undecided: "undecided", ended: "ended" }],
      ["group", "Group", "any"],
      ["topic", "Topic", "any"],
      ...(isEnded
        ? [["since", "In the last", "1h", DURATION]]
        : [["id", "Id", "any"], ["older", "Older than", "10m", DURATION], ["checks", "Checks, at least", "0", COUNT]]),
    ]);
  },
  async load(parameters, signal) {
    if (parameters.state === "ended") {
      const count = Number(parameters.limit) || 2 * PAGE;
      const query = { group: parameters.group, topic: parameters.topic, since_s: secondsOf(parameters.since || "1h"), limit: count };
      return { ended: await get("v1/stories", query, signal), count };
    }
    const query = { ...queryOf(parameters), limit: PAGE, skip: skipOf(parameters) || "" };
    const page = await get("v1/transactions", query, signal);
    return { page, groups: await operableGroups(list(page.transactions).map((row) => row.producer_group)) };
  },
  draw({ page, groups, ended, count }, parameters, tools) {
    if (ended) return drawEnded(ended, count, parameters);
    return [
      mayOperate() ? tools.toolbar("transactions", page.total_count, queryOf(parameters)) : "",
      missing(page),
      table(pendingColumns, page.transactions, {
        open: traceOf,
        selection: mayOperate() ? tools.selection : null,
        may: (row) => groups.get(row.producer_group) === true,
        empty: "Nothing that matches is undecided. What was given up is under Parked, what has ended under State: ended.",
      }),
      pager("transactions", parameters, page.transactions.length, page.total_count),
    ];
  },
};

function drawEnded(ended, count, parameters) {
  return [
    ended.trouble ? el("p", { class: "note bad" }, ended.trouble) : "",
    table(endedColumns, ended.stories, { open: traceOf, empty: "Nothing has ended in this time that is kept." }),
    el(
      "p", { class: "pager" },
      ended.kept_since_ms ? `What has ended is kept since ${moment(ended.kept_since_ms)}.` : "",
      ended.is_cut && count < 1000 ? el("a", { class: "button", href: place("transactions", { ...parameters, limit: 1000 }) }, "Show up to 1,000") : "",
      ended.is_cut && count >= 1000 ? "There are more: choose fewer with the filters." : "",
    ),
  ];
}

// -- parked ----------------------------------------------------------------------------------------

const parkedColumns = [
  ["Transaction", (row) => el("a", { href: parkedPlace(row), class: "id" }, text(row.transaction_id) || "(empty)")],
  groupColumn,
  topicsColumn,
  ["Messages", (row) => number(row.message_count), "number"],
  ["Parked", (row) => moment(row.parked_ms), "time"],
  ["Why", (row) => [words(row.reason), row.detail ? el("span", { class: "why" }, ` ${text(row.detail)}`) : ""]],
  ["When resumed", (row) => (row.decision === null ? "asked again" : text(row.decision))],
  ["Put back before", (row) => number(row.resumed_count), "number"],
];

function parkedPlace(row) {
  return place("trace", { id: row.transaction_id, group: row.producer_group });
}

const parked = {
  title: "Parked",
  filters: (parameters) => filterBar("parked", parameters, [
    ["group", "Group", "any"], ["topic", "Topic", "any"], ["id", "Id", "any"],
    ["older", "Parked for", "10m", DURATION], ["checks", "Checks, at least", "0", COUNT],
  ]),
  async load(parameters, signal) {
    const query = { ...queryOf(parameters), limit: PAGE, skip: skipOf(parameters) || "" };
    const page = await get("v1/parked", query, signal);
    return { page, groups: await operableGroups(list(page.transactions).map((row) => row.producer_group)) };
  },
  draw({ page, groups }, parameters, tools) {
    return [
      mayOperate() ? tools.toolbar("parked", page.total_count, queryOf(parameters)) : "",
      page.left_out_count ? el("p", { class: "note bad" }, `${plural(page.left_out_count, "more parked message")} could not be looked at, there are too many: resume what is shown first.`) : "",
      table(parkedColumns, page.transactions, {
        open: parkedPlace,
        selection: mayOperate() ? tools.selection : null,
        may: (row) => groups.get(row.producer_group) === true,
        empty: "Nothing that matches is parked.",
      }),
      pager("parked", parameters, page.transactions.length, page.total_count),
    ];
  },
};

// -- producers and partitions ----------------------------------------------------------------------

function isAlone(group) {
  return !group.link_count && !list(group.elsewhere).length;
}

const producers = {
  title: "Producers",
  load: (_, signal) => get("v1/producers", {}, signal),
  draw({ groups }) {
    const columns = [
      ["Group", (row) => el("a", { href: place("transactions", { group: row.producer_group }) }, text(row.producer_group))],
      ["Connected", (row) => (isAlone(row) ? el("span", { class: row.undecided_count ? "bad" : "" }, "nobody") : number(row.link_count)), "number"],
      ["Under way", (row) => number(row.outstanding_count), "number"],
      ["Waiting", (row) => number(row.waiting_count), "number"],
      ["Undecided", (row) => number(row.undecided_count), "number"],
      ["Breaker", (row) => (row.breaker === "closed" ? "" : el("span", { class: "bad" }, text(row.breaker)))],
      ["Who", (row) => joined(row.links)],
      ["Elsewhere", (row) => joined(row.elsewhere)],
    ];
    return [
      el("p", { class: "note" }, "As this instance knows it. A group without anybody cannot be asked: its undecided transactions wait, and no check is counted."),
      table(columns, groups, {
        open: (row) => place("transactions", { group: row.producer_group }),
        key: (row) => row.producer_group,
        empty: "No producer that answers checks is connected, and none was asked lately.",
      }),
    ];
  },
};

const partitions = {
  title: "Partitions",
  load: (_, signal) => get("v1/partitions", {}, signal),
  draw({ partitions: rows }) {
    const columns = [
      ["Half partition", (row) => number(row.partition), "number"],
      ["State", (row) => el("span", { class: row.phase === "working" ? "" : "bad" }, words(row.phase))],
      ["Undecided", (row) => number(row.pending_count), "number"],
      ["Oldest", (row) => (row.pending_count === 0 ? "" : age(row.oldest_age_s)), "number"],
      ["Checks due", (row) => number(row.due_count), "number"],
      ["Under way", (row) => number(row.checking_count), "number"],
      ["Decided, to do", (row) => number(row.decided_count), "number"],
      ["Half log", (row) => `${number(row.half_watermark)} / ${number(row.half_position)}`, "number"],
      ["Op log", (row) => `${number(row.op_watermark)} / ${number(row.op_position)}`, "number"],
      ["Behind", (row) => (row.lag_s === 0 ? "" : `${row.lag_s.toFixed(1)}s`), "number"],
      ["Waiting for", (row) => Object.entries(row.waiting_by_topic).map(([topic, count]) => `${topic} (${number(count)})`).join(", ")],
      ["Trouble", (row) => el("span", { class: "bad" }, [maybe(row.trouble), ...list(row.troubles).map(text)].filter(Boolean).join("; "))],
    ];
    return [
      el("p", { class: "note" }, "Those that this instance owns. Logs: all below the first number is finished, the second is read next."),
      table(columns, rows, { key: (row) => String(row.partition), empty: "This instance owns no half partition." }),
    ];
  },
};

export const views = { overview, transactions, parked, producers, partitions };
export { keyOf };
