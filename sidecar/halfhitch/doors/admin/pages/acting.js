// What an operator does: a reason, a dry run that names who is meant, the doing, and an account.
//
// What was agreed to is a list of names: who comes later is not among them. Everything goes through
// the routes that the command line uses, so the door decides who may.

import { Refused, get, identity, operableGroups, post, segment, why } from "./asking.js";
import { el, number, plural } from "./shown.js";

/** Of one request about many; the door takes 16 KiB. */
const CHUNK_MAX = 250;
const CHUNK_BYTES_MAX = 12_000;
const AT_ONCE = 4;
const NAMES_MAX = 200_000;
const PARKED_MAX = 100_000;
const NAMED_MAX = 10;
const FAILURES_MAX = 100;

const ACTIONS = {
  commit: { verb: "Commit", done: "committed", kind: "transactions", about: "The messages become visible. The first decision stands, whoever makes it." },
  rollback: { verb: "Roll back", done: "rolled back", kind: "transactions", about: "The messages are dropped. The first decision stands, whoever makes it." },
  check: { verb: "Check now", done: "to be checked", kind: "transactions", about: "The producers are asked now instead of when the next check is due.", isFree: true },
  resume: { verb: "Resume", done: "resumed", kind: "parked", about: "Put back into the half log, once: a decision on record is carried out, else the producers are asked anew." },
};

export function actionsOf(kind) {
  return Object.keys(ACTIONS).filter((name) => ACTIONS[name].kind === kind);
}

export function verbOf(name) {
  return ACTIONS[name].verb;
}

/** rows: those that were chosen; or query: all that match. `done` is called when it is closed. */
export function openAction(dialog, name, { rows, query }, done) {
  const action = { name, ...ACTIONS[name] };
  const reason = el("input", { name: "reason", maxlength: 200, required: !action.isFree, autocomplete: "off", placeholder: "kept for those who look later" });
  const operator = el("input", { name: "operator", maxlength: 100, required: true, autocomplete: "off", placeholder: "your name" });
  operator.value = identity.operator();
  const body = el("div", { class: "account", "aria-live": "polite" });
  const next = el("button", { type: "submit", class: "main" }, "Show what would be done");
  const close = el("button", { type: "button", onclick: () => leave() }, "Close");
  const state = { agreed: null, isOver: false, isStopped: false, isWorking: false };
  const form = el(
    "form", { method: "dialog" },
    el("h2", {}, action.verb, rows ? ` ${plural(rows.length, "transaction")}` : " all that match"),
    el("p", {}, action.about),
    rows ? "" : el("p", {}, "Filter: ", Object.entries(query).map(([key, value]) => `${key} = ${value}`).join(", ") || "none, all of them"),
    el("label", {}, "Reason", reason),
    identity.me?.name ? el("p", { class: "note" }, `Signed by identity ${identity.me.name}.`) : el("label", {}, "Who", operator),
    body,
    el("p", { class: "ends" }, next, close),
  );
  form.addEventListener("input", () => disagree());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    next.disabled = true;
    try {
      await step();
    } catch (error) {
      disagree();
      body.replaceChildren(el("p", { class: "bad" }, why(error)));
    }
    next.disabled = next.hidden = state.isOver;
  });

  async function step() {
    if (!state.agreed) {
      state.agreed = await dryRun(action, rows, query);
      body.replaceChildren(...told(action, state.agreed));
      if (!state.agreed.names.length) state.agreed = null;
      else next.textContent = `${action.verb} ${number(state.agreed.names.length)}`;
      close.focus(); // so that a second Enter does nothing
      return;
    }
    for (const each of [reason, operator]) each.disabled = true;
    identity.setOperator(operator.value);
    const order = { reason: reason.value };
    if (!identity.me?.name) order.operator = operator.value;
    const stop = el("button", { type: "button", onclick: () => halt() }, "Stop");
    const progress = el("p", {}, "");
    body.replaceChildren(progress, stop);
    working(true);
    const account = await carryOut(action, state.agreed.names, order, state, (count) => {
      progress.textContent = `${number(count)} of ${number(state.agreed.names.length)}`;
    });
    working(false);
    state.isOver = true;
    body.replaceChildren(...accounted(action, account));
  }

  /** Who changes the reason looks again. */
  function disagree() {
    state.agreed = null;
    next.textContent = "Show what would be done";
    body.replaceChildren();
  }

  /** Nobody leaves before the account: what was done to whom is told nowhere else at once. */
  function working(isWorking) {
    state.isWorking = close.hidden = isWorking;
    if (isWorking) addEventListener("beforeunload", warn);
    else removeEventListener("beforeunload", warn);
  }

  function warn(event) {
    event.preventDefault();
  }

  function halt() {
    state.isStopped = true;
  }

  function leave() {
    halt();
    dialog.close();
  }
  dialog.oncancel = (event) => {
    if (!state.isWorking) return;
    event.preventDefault();
    halt();
  };
  dialog.onclose = () => {
    halt();
    // A browser lets nobody keep a dialog open against a second Escape.
    if (state.isWorking) dialog.showModal();
    else done(state.isOver);
  };
  dialog.replaceChildren(form);
  dialog.showModal();
  reason.focus();
}

// -- who is meant ----------------------------------------------------------------------------------

async function dryRun(action, rows, query) {
  const found = rows ? await stillThere(action, rows) : await allMatching(action, query);
  const groups = await operableGroups(found.names.map(([group]) => group));
  const names = found.names.filter(([group]) => groups.get(group) === true);
  return { ...found, names, forbiddenCount: found.names.length - names.length };
}

async function allMatching(action, query) {
  if (action.kind === "parked") {
    const page = await get("v1/parked", { ...query, limit: PARKED_MAX });
    return {
      names: page.transactions.map((row) => [row.producer_group, row.transaction_id]),
      beyondCount: page.total_count - page.transactions.length + page.left_out_count,
    };
  }
  const page = await get("v1/names", { ...query, limit: NAMES_MAX });
  const told = Object.entries(page.names).flatMap(([group, ids]) => ids.map((id) => [group, id]));
  // An older sidecar may name one twice, which two half partitions have.
  const names = Object.entries(page.names).flatMap(([group, ids]) => [...new Set(ids)].map((id) => [group, id]));
  return { names, beyondCount: page.total_count - told.length, missing: page.missing_partitions };
}

/** Few are looked up; of many the door says at the end who had ended meanwhile. */
async function stillThere(action, rows) {
  const names = rows.map((row) => [row.producer_group, row.transaction_id]);
  if (names.length > NAMED_MAX) return { names, beyondCount: 0 };
  const pages = await Promise.all(
    names.map(([group, id]) => get(`v1/${action.kind}`, { group, id, limit: 1 })),
  );
  const left = names.filter((_, index) => pages[index].total_count > 0);
  return { names: left, beyondCount: 0, goneCount: names.length - left.length };
}

function told(action, agreed) {
  const { names, beyondCount, forbiddenCount, goneCount, missing } = agreed;
  const groups = [...new Set(names.map(([group]) => group))];
  const whose = groups.length === 1 ? `of group ${groups[0]}` : `of ${groups.length} groups`;
  const warn = (count, text) => (count ? el("p", { class: "bad" }, `${number(count)} ${text}`) : "");
  const lines = [
    names.length
      ? el("p", {}, el("strong", {}, `${plural(names.length, "transaction")} ${whose} would be ${action.done}:`))
      : el("p", {}, "Nothing matches: nothing to do."),
    el("ul", {}, names.slice(0, NAMED_MAX).map(([group, id]) => el("li", {}, el("span", { class: "id" }, id), ` ${group}`))),
    names.length > NAMED_MAX ? el("p", {}, `and ${number(names.length - NAMED_MAX)} more.`) : "",
    warn(goneCount, "of those that were chosen are not there any more: they have ended, or were parked or put back."),
    warn(forbiddenCount, "match and are left out: you may not operate on their groups."),
    warn(beyondCount, "match and cannot be reached at once: do it again afterwards."),
    missing?.length ? el("p", { class: "bad" }, `Half partitions ${missing.join(", ")} of other instances could not be looked at.`) : "",
    names.length ? el("p", { class: "note" }, "Nothing was done yet.") : "",
  ];
  return lines.filter((line) => line !== "");
}

// -- doing it --------------------------------------------------------------------------------------

async function carryOut(action, names, order, state, progress) {
  const account = { done: 0, failed: [], untried: 0 };
  const waiting = chunks(action, names);
  let seen = 0;
  async function work() {
    while (waiting.length && !state.isStopped) {
      const chunk = waiting.shift();
      await chunkDone(action, chunk, order, account, state);
      seen += chunk.length;
      progress(seen);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  account.untried = waiting.reduce((count, chunk) => count + chunk.length, 0);
  account.isStopped = state.isStopped;
  return account;
}

function chunks(action, names) {
  if (action.kind === "parked") return names.map((name) => [name]);
  const encoder = new TextEncoder();
  const found = [];
  let chunk = [];
  let size = 0;
  for (const name of names) {
    const bytes = encoder.encode(JSON.stringify(name)).length;
    if (chunk.length && (chunk.length >= CHUNK_MAX || size + bytes > CHUNK_BYTES_MAX)) {
      found.push(chunk);
      [chunk, size] = [[], 0];
    }
    chunk.push(name);
    size += bytes;
  }
  if (chunk.length) found.push(chunk);
  return found;
}

async function chunkDone(action, chunk, order, account, state) {
  try {
    if (action.kind === "parked") {
      const [[group, id]] = chunk;
      await post(`v1/parked/${segment(group)}/${segment(id)}/resume`, order);
      account.done += 1;
      return;
    }
    const transactions = {};
    for (const [group, id] of chunk) (Object.hasOwn(transactions, group) ? transactions[group] : define(transactions, group)).push(id);
    const { results } = await post(`v1/many/${action.name}`, { ...order, transactions });
    const next = new Map();
    for (const [group, id] of chunk) {
      const index = next.get(group) ?? 0;
      next.set(group, index + 1);
      const { error } = results[group][index];
      if (error) account.failed.push([group, id, error.message]);
      else account.done += 1;
    }
  } catch (error) {
    for (const [group, id] of chunk) account.failed.push([group, id, failure(error)]);
    // Whoever is refused once, or finds nobody, fares no better with the next thousand.
    const isBusy = error instanceof Refused && error.status === 429;
    if (isBusy) await new Promise((resolve) => setTimeout(resolve, 1000 * (error.retryAfterS || 1)));
    else if (!(error instanceof Refused) || error.status === 503 || error.status === 403 || error.status === 401) state.isStopped = true;
  }
}

/** A group may be called __proto__. */
function define(transactions, group) {
  Object.defineProperty(transactions, group, { value: [], enumerable: true });
  return transactions[group];
}

function failure(error) {
  const isKnown = error instanceof Refused;
  return isKnown ? error.message : `not known: ${why(error)} Look before you repeat it; to repeat is safe.`;
}

function accounted(action, { done, failed, untried, isStopped }) {
  const lines = [el("p", {}, el("strong", {}, `${number(done)} ${action.done}.`))];
  if (failed.length) lines.push(el("p", { class: "bad" }, `${number(failed.length)} not:`));
  const shown = failed.slice(0, FAILURES_MAX);
  if (failed.length) lines.push(el("ul", {}, shown.map(([group, id, why]) => el("li", {}, el("span", { class: "id" }, id), ` ${group}: ${why}`))));
  if (failed.length > shown.length) lines.push(el("p", {}, `and ${number(failed.length - shown.length)} more.`));
  if (untried) lines.push(el("p", { class: "bad" }, `${number(untried)} not tried${isStopped ? ": stopped" : ""}.`));
  return lines;
}
