// The frame: which view the address names, looking again and again, signing in, keys.
//
// The address holds all that is shown, behind the #. It is looked again as soon as something has
// happened, and every three seconds in any case, for other instances tell nothing here. Never more
// than a tenth of the time is spent on the door, and nothing while nobody looks.

import { actionsOf, openAction, verbOf } from "./acting.js";
import { Refused, get, identity, mayOperate, why } from "./asking.js";
import { Selection } from "./lists.js";
import { el, list, number, place, text } from "./shown.js";
import { trace } from "./story.js";
import { views } from "./views.js";

const VIEWS = { ...views, trace };
/** Between two looks at least; and so long after a failure, or at a door that tells no changes. */
const REST_MS = 1000;
const PACE_MS = 3000;
const PACE_MAX_MS = 60_000;
/** So many times longer than the last answer took. */
const REST = 10;

const $ = (id) => document.getElementById(id);
const now = { name: "overview", parameters: {}, body: null, abort: null, waiting: null, timer: 0, isPaused: false, isStale: false, seenMs: 0, revision: "0" };
const selection = new Selection(() => counted());

function read() {
  const [name, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { name: Object.hasOwn(VIEWS, name) ? name : "overview", parameters: Object.fromEntries(new URLSearchParams(query)) };
}

// -- showing ---------------------------------------------------------------------------------------

function show() {
  Object.assign(now, read());
  const view = VIEWS[now.name];
  selection.clear();
  for (const link of $("nav").children) {
    if (link.dataset.view === now.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const called = now.name === "trace" && now.parameters.id ? now.parameters.id : view.title;
  const heading = el("h1", {}, view.title);
  document.title = `${el("i", {}, called).textContent} - Half Hitch`;
  now.body = el("div", { id: "body" }, el("p", { class: "empty looking" }, "Looking…"));
  $("main").replaceChildren(heading, view.filters?.(now.parameters) ?? "", el("div", { id: "trouble", role: "alert" }), now.body);
  look();
}

/** isRepeat: nobody has asked for it, only time has passed. */
async function look(isRepeat = false) {
  rest();
  now.abort?.abort();
  const abort = (now.abort = new AbortController());
  const view = VIEWS[now.name];
  const beganMs = performance.now();
  let waitMs = REST_MS;
  let next = changed;
  try {
    if (!identity.me) await know();
    const data = await view.load(now.parameters, abort.signal, isRepeat);
    if (abort.signal.aborted) return;
    draw(() => view.draw(data, now.parameters, tools));
    now.seenMs = Date.now();
    $("trouble").replaceChildren();
  } catch (error) {
    if (abort.signal.aborted) return;
    if (error instanceof Refused && error.status === 401) {
      askToken(error);
      return;
    }
    now.body.querySelector(".looking")?.remove();
    const isOlder = now.body.childElementCount > 0;
    $("trouble").replaceChildren(el("p", { class: "bad" }, why(error), isOlder ? " What is shown is older." : ""));
    next = again;
    waitMs = Math.max(PACE_MS, 1000 * (error.retryAfterS ?? 0));
    if (error instanceof Refused && [400, 403, 404].includes(error.status)) waitMs = PACE_MAX_MS;
  }
  waitMs = Math.min(PACE_MAX_MS, Math.max(waitMs, REST * (performance.now() - beganMs)));
  told();
  if (!now.isPaused && !document.hidden) now.timer = setTimeout(next, waitMs);
}

/** Look again when the door says that something has happened, or when it has had nothing to say. */
async function changed() {
  const { signal } = (now.waiting = new AbortController());
  try {
    now.revision = text((await get("v1/changes", { after: now.revision }, signal)).revision);
  } catch {
    // A door of another release, one with too many who wait, or none: the next look tells.
    if (!signal.aborted) now.timer = setTimeout(again, PACE_MS - REST_MS);
    return;
  }
  if (!signal.aborted && !now.isPaused && !document.hidden) again();
}

function rest() {
  clearTimeout(now.timer);
  now.waiting?.abort();
}

/** Not under somebody's hands: who is choosing, marking a text or answering is left alone. */
function again() {
  const isBusy = $("dialog").open || (String(getSelection()) && now.body.contains(getSelection().anchorNode));
  if (isBusy) now.timer = setTimeout(again, PACE_MS);
  else look(true);
}

function draw(made) {
  const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
  const nodes = made().flat(Infinity).filter((child) => child !== "" && child !== null && child !== undefined);
  // An opened list of messages, or one that is on its way, stays open until something was done.
  if (!now.isStale && now.body.querySelector(".message, .awaited")) return;
  now.isStale = false;
  now.body.replaceChildren(...nodes);
  if (focused !== undefined) rows().find((row) => row.dataset.key === focused)?.focus();
  counted();
}

async function know() {
  const me = await get("v1/me");
  list(me.rights);
  identity.me = me;
  const name = me.name === null ? "" : text(me.name);
  $("who").replaceChildren(
    name ? `${name}${mayOperate() ? "" : " (may look only)"} ` : "",
    identity.token() ? el("button", { type: "button", onclick: signOut }, "Sign out") : "",
  );
}

function told() {
  const time = now.seenMs ? new Date(now.seenMs).toLocaleTimeString("en-GB") : "";
  $("live").textContent = now.isPaused ? `paused, ${time}` : time && `seen ${time}`;
  $("live").classList.toggle("paused", now.isPaused);
}

// -- choosing and doing ----------------------------------------------------------------------------

const tools = {
  selection,
  /** For a list: with those that are chosen, or with all that match. */
  toolbar(kind, totalCount, query) {
    return el(
      "p", { class: "toolbar" },
      actionsOf(kind).map((name) => el("button", { type: "button", class: "chosen", onclick: () => act(name, { rows: [...selection.rows.values()] }) }, `${verbOf(name)} chosen…`)),
      el("span", { class: "grow" }),
      totalCount ? actionsOf(kind).map((name) => el("button", { type: "button", onclick: () => act(name, { query }) }, `${verbOf(name)} all ${number(totalCount)}…`)) : "",
    );
  },
  /** For one. */
  doing(story, parked) {
    const names = parked ? actionsOf("parked") : story.state === "pending" ? actionsOf("transactions") : [];
    if (!names.length) return "";
    return el("p", { class: "toolbar" }, names.map((name) => el("button", { type: "button", onclick: () => act(name, { rows: [parked ?? story] }) }, `${verbOf(name)}…`)));
  },
};

function act(name, meant) {
  openAction($("dialog"), name, meant, (isDone) => {
    if (isDone) {
      selection.clear();
      now.isStale = true;
    }
    look();
  });
}

function counted() {
  const count = selection.rows.size;
  for (const button of document.querySelectorAll("button.chosen")) {
    button.disabled = !count;
    button.title = count ? `${count} chosen` : "choose some first";
  }
}

// -- signing in ------------------------------------------------------------------------------------

function isReadable() {
  return location.protocol === "http:" && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname);
}

function askToken(error) {
  const wasGiven = identity.token() !== "";
  identity.signOut();
  $("who").replaceChildren();
  const token = el("input", { type: "password", name: "token", required: true, autocomplete: "off", spellcheck: "false" });
  const sure = isReadable()
    ? el("label", { class: "sure" }, el("input", { type: "checkbox", required: true }), " This page came unencrypted. I know that the way to the sidecar is encrypted by other means (a mesh, a VPN).")
    : "";
  const form = el(
    "form", { class: "sign-in" },
    el("p", {}, "This door asks for a token. It is kept for this tab only, and sent to this door only."),
    wasGiven ? el("p", { class: "bad" }, error.message) : "",
    el("label", {}, "Token", token), sure, el("button", { type: "submit", class: "main" }, "Sign in"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // Anything else is no header: fetch would refuse it with words of its own.
    identity.signIn(token.value.replace(/[^\x21-\x7e]/g, ""));
    show();
  });
  now.body.replaceChildren(form);
  token.focus();
}

function signOut() {
  identity.signOut();
  now.seenMs = 0;
  show();
}

// -- keys ------------------------------------------------------------------------------------------

const KEYS = [
  ["1 … 5", "Overview, Transactions, Parked, Producers, Partitions"], ["t", "Trace one transaction"],
  ["/", "Filter"], ["j k", "Next, previous row"], ["Enter", "Open the row"], ["x", "Choose the row"],
  ["[ ]", "Earlier, next page"], ["r", "Look again"], ["p", "Pause"], ["?", "These keys"], ["Esc", "Close"],
];

function rows() {
  return [...now.body.querySelectorAll("tr[data-key]")];
}

function step(by) {
  const all = rows();
  const at = all.indexOf(document.activeElement);
  all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))]?.focus();
}

const DOES = {
  t: () => (location.hash = place("trace")),
  "/": () => $("main").querySelector(".filters input")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  x: () => document.activeElement?.closest("tr")?.querySelector("input")?.click(),
  "[": () => now.body.querySelector("[data-way=back]")?.click(),
  "]": () => now.body.querySelector("[data-way=on]")?.click(),
  r: () => look(),
  p: () => $("pause").click(),
  "?": () => keysShown(),
};

function keysShown() {
  const dialog = $("dialog");
  dialog.onclose = null;
  dialog.replaceChildren(
    el("h2", {}, "Keys"),
    el("dl", {}, KEYS.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)])),
    el("p", { class: "ends" }, el("button", { type: "button", onclick: () => dialog.close() }, "Close")),
  );
  dialog.showModal();
}

function pressed(event) {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape" && isTyping && !$("dialog").open) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping || $("dialog").open) return;
  if (event.key === "Enter" && event.target.matches("tr[data-key]")) {
    event.target.click();
    return;
  }
  const does = DOES[event.key] ?? (/^[1-5]$/.test(event.key) && (() => (location.hash = place(Object.keys(views)[event.key - 1]))));
  if (!does) return;
  event.preventDefault();
  does();
}

// -- beginning -------------------------------------------------------------------------------------

for (const [name, view] of Object.entries(VIEWS)) {
  $("nav").append(el("a", { href: place(name), dataset: { view: name } }, view.title));
}
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
$("pause").addEventListener("click", () => {
  now.isPaused = !now.isPaused;
  $("pause").setAttribute("aria-pressed", String(now.isPaused));
  $("pause").textContent = now.isPaused ? "Go on" : "Pause";
  if (now.isPaused) rest();
  else look();
  told();
});
$("help").addEventListener("click", keysShown);
document.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) rest();
  else if (!now.isPaused) look();
});
addEventListener("hashchange", show);
show();
