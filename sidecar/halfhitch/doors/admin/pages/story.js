// One transaction: its story as a timeline, what is parked of it, and what can be done with it.

import { get, operableGroups, segment, why } from "./asking.js";
import { filterBar } from "./lists.js";
import { DASH, el, joined, list, moment, number, orDash, plural, stateClass, text, words } from "./shown.js";

/** Not somebody's doing: there it happened. */
const ON = new Set(["prepared", "lives_again", "forwarded", "dropped", "parked"]);
const CHECKS = new Set(["asked", "answered"]);

export const trace = {
  title: "Trace",
  filters: (parameters) => filterBar("trace", parameters, [
    ["id", "Id", "transaction id"], ["group", "Group", "any"],
    ["topic", "Topic", "of a key"], ["key", "Key", "instead of an id"],
  ]),
  async load(parameters, signal) {
    const { id, group, topic, key } = parameters;
    if (!id && !(key && topic)) return { page: null };
    const query = id ? { id, group } : { key, topic, group };
    const page = await get("v1/stories", query, signal);
    const groups = await operableGroups(list(page.stories).map((story) => story.producer_group));
    const parked = page.stories.some((story) => story.state === "parked") && id
      ? list((await get("v1/parked", { id, group, limit: 10 }, signal)).transactions)
      : [];
    return { page, groups, parked };
  },
  draw({ page, groups, parked }, _, tools) {
    if (page === null) return [el("p", { class: "empty" }, "Name a transaction by its id, or a message by its key and topic.")];
    if (!page.stories.length) return [el("p", { class: "empty" }, `Nothing is known of it. ${howFar(page)}`)];
    return page.stories.map((story) => drawn(story, groups, parked, tools));
  },
};

function howFar(page) {
  if (page.trouble) return page.trouble;
  return page.kept_since_ms
    ? `What has ended is kept since ${moment(page.kept_since_ms)}, and all of that was looked at.`
    : "Nothing that has ended is kept yet.";
}

function drawn(story, groups, parked, tools) {
  const kept = parked.find((row) => row.producer_group === story.producer_group);
  const may = groups.get(story.producer_group) === true;
  return el(
    "article", {},
    el("h2", {}, el("span", { class: "id" }, text(story.transaction_id)), " ", el("span", { class: `state ${stateClass(story.state)}` }, words(story.state))),
    el("p", {}, `Group ${text(story.producer_group)}: ${plural(story.message_count, "message")} for ${orDash(() => joined(story.topics) || "topics that are not known any more")}`, by(story)),
    may ? tools.doing(story, kept) : "",
    el("ol", { class: "timeline" }, list(story.events).map((event, place) => orDash(() => line(event, story.events[place - 1])))),
    story.events.some((event) => event.what === "forwarded") ? landedCard(story, may) : "",
    kept ? parkedCard(kept, may) : "",
  );
}

/** Kafka is read for this, so it waits until somebody wants it. */
function landedCard(story, may) {
  return revealed(may ? "Show its messages on their topics" : "Show where its messages lie", async () => {
    const query = { id: story.transaction_id, group: story.producer_group, look: may ? "values" : "offsets" };
    const { stories } = await get("v1/stories", query);
    const events = list(stories).flatMap((each) => list(each.events)).filter((event) => event.landed);
    const troubles = events.map((event) => event.landed_trouble).filter(Boolean);
    return [
      ...events.flatMap((event) => list(event.landed).map(landing)),
      ...troubles.map((trouble) => el("p", { class: "bad" }, `Not all of them: ${text(trouble)}.`)),
    ];
  });
}

function landing(found) {
  const { content } = found;
  return message({
    topic: `${text(found.topic)}/${offset(found.partition)}@${offset(found.log_offset)}`,
    at: moment(found.stored_ms),
    isCut: content?.is_cut,
    ...(content ?? { headers: null }),
  });
}

function offset(value) {
  return Number.isFinite(value) ? String(value) : DASH;
}

function by(story) {
  const who = story.decided_by ? `; decided by ${text(story.decided_by)}` : "";
  return [who, story.reason ? [" because ", el("q", {}, text(story.reason))] : "", "."];
}

function line(event, before) {
  const afterMs = before ? Math.max(0, event.at_ms - before.at_ms) : null;
  const after = afterMs === null ? "" : Number.isFinite(afterMs) ? `+${(afterMs / 1000).toFixed(3)}s` : DASH;
  const parts = [];
  if (CHECKS.has(event.what)) parts.push(`check ${number(event.number)}`);
  if (event.outcome) parts.push(words(event.outcome));
  if (event.by) parts.push(`${ON.has(event.what) ? "on" : "by"} ${text(event.by)}`);
  if (event.took_ms !== null) parts.push(`after ${offset(event.took_ms)} ms`);
  for (const [topic, partition] of list(event.targets)) parts.push(partition === null ? text(topic) : `${text(topic)}[${offset(partition)}]`);
  return el(
    "li", { class: "event" },
    el("time", { datetime: new Date(event.at_ms).toISOString() }, moment(event.at_ms)),
    el("span", { class: "after" }, after),
    el("strong", {}, words(event.what)),
    el("span", {}, parts.join(", "), event.reason ? [" ", el("q", {}, text(event.reason))] : ""),
  );
}

function parkedCard(row, may) {
  const path = () => `v1/parked/${segment(row.producer_group)}/${segment(row.transaction_id)}`;
  const shownHere = () => revealed("Show its messages", async () => list((await get(path())).messages).map(message));
  return el(
    "section", {},
    el("h3", {}, "On the parked topic"),
    el("p", {}, `Parked ${moment(row.parked_ms)}: ${words(row.reason)}`, row.detail ? [" ", el("q", {}, text(row.detail))] : "", "."),
    el("p", {}, row.decision
      ? [`When it is resumed, the ${text(row.decision)} on record is carried out`, row.decision_reason ? [" ", el("q", {}, text(row.decision_reason))] : "", "."]
      : "When it is resumed, its producers are asked again: nobody has decided it."),
    may ? shownHere() : el("p", { class: "note" }, "Its messages are shown to whoever may operate on its group."),
  );
}

/** A button, and below it what it brings. */
function revealed(label, made) {
  const place = el("div", {});
  const button = el("button", { type: "button", onclick: reveal }, label);
  async function reveal() {
    button.disabled = true;
    place.className = "awaited"; // the page is not drawn anew meanwhile: the answer would land nowhere
    try {
      place.replaceChildren(...(await made()));
    } catch (error) {
      place.replaceChildren(el("p", { class: "bad" }, why(error)));
    }
    place.className = "";
    button.disabled = false;
  }
  return el("div", {}, el("p", {}, button), place);
}

function message(found) {
  const pair = (name, value) => [el("dt", {}, name), el("dd", {}, value)];
  return el(
    "dl", { class: "message" },
    pair("topic", found.at || found.partition === undefined ? text(found.topic) : `${text(found.topic)}[${offset(found.partition)}]`),
    found.at ? pair("stored", found.at) : "",
    found.headers === null ? "" : [
      pair("key", content(found.key, found.key_base64)),
      list(found.headers).map(([name, value]) => pair(el("span", {}, "header ", el("b", {}, text(name))), header(value))),
      pair("value", content(found.value, found.value_base64)),
      found.isCut ? pair("", `cut; the value has ${number(found.value_bytes)} bytes`) : "",
    ],
  );
}

function header(value) {
  return value !== null && typeof value === "object" ? content(undefined, value.base64) : content(value);
}

function content(plain, base64) {
  if (base64 !== undefined) return el("code", {}, `base64:${text(base64)}`);
  return plain === null ? el("i", {}, "null") : el("code", {}, text(plain));
}
