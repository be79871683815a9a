// Tables, filter bars and pages of many: what several views are made of.

import { cut, el, list, number, orDash, place, text } from "./shown.js";

export const PAGE = 50;
/** The door pages no further. */
export const REACH_MAX = 10_000;

export function keyOf(row) {
  return JSON.stringify([row.producer_group, row.transaction_id]);
}

/**
 * columns: [label, (row) => content, class?]. With `open` a row leads somewhere; with `selection` it
 * has a box, where `may` says so.
 */
export function table(columns, rows, { open, selection, may, key = keyOf, empty = "Nothing." } = {}) {
  if (!list(rows).length) return el("p", { class: "empty" }, empty);
  const head = columns.map(([label, , kind]) => el("th", { scope: "col", class: kind }, label));
  const body = rows.map((row) => {
    const cells = columns.map(([, content, kind]) => el("td", { class: kind }, orDash(() => content(row))));
    if (selection) cells.unshift(el("td", { class: "box" }, may(row) ? box(row, selection, key) : ""));
    const properties = open ? { tabindex: 0, dataset: { key: key(row) }, onclick: (event) => opened(event, open(row)) } : {};
    return el("tr", properties, cells);
  });
  if (selection) head.unshift(el("th", { class: "box" }, everyBox(rows.filter(may), selection, key)));
  return el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

function box(row, selection, key) {
  const found = el("input", {
    type: "checkbox", "aria-label": `select ${cut(text(row.transaction_id), 100)}`, tabindex: -1,
    onchange: (event) => selection.set(key(row), event.target.checked ? row : null),
  });
  found.checked = selection.has(key(row));
  return found;
}

function everyBox(rows, selection, key) {
  if (!rows.length) return "";
  const found = el("input", {
    type: "checkbox", "aria-label": "select all of this page",
    onchange: (event) => {
      for (const row of rows) selection.set(key(row), event.target.checked ? row : null);
      for (const each of event.target.closest("table").querySelectorAll("tbody input")) each.checked = event.target.checked;
    },
  });
  found.checked = rows.every((row) => selection.has(key(row)));
  return found;
}

function opened(event, where) {
  // Who marks an id with the mouse to copy it wants to stay.
  if (event.target.closest("a, input, button") || String(getSelection())) return;
  location.hash = where;
}

/** Rows that are chosen, by key. */
export class Selection {
  constructor(changed) {
    this.rows = new Map();
    this.changed = changed;
  }

  has(key) {
    return this.rows.has(key);
  }

  set(key, row) {
    if (row) this.rows.set(key, row);
    else this.rows.delete(key);
    this.changed();
  }

  clear() {
    this.rows.clear();
    this.changed();
  }
}

/** fields: [name, label, placeholder or {value: label}, {pattern, title, type}?] */
export function filterBar(page, parameters, fields) {
  const inputs = fields.map(([name, label, hint, more = {}]) => {
    const input = typeof hint === "string"
      ? el("input", { name, type: "search", placeholder: hint, autocomplete: "off", spellcheck: "false", ...more })
      : el("select", { name }, Object.entries(hint).map(([value, label]) => el("option", { value }, label)));
    input.value = parameters[name] ?? (typeof hint === "string" ? "" : Object.keys(hint)[0]);
    if (input.tagName === "SELECT") input.addEventListener("change", () => form.requestSubmit());
    return el("label", {}, label, input);
  });
  const form = el(
    "form", { class: "filters", role: "search", onsubmit: submitted }, inputs,
    el("button", { type: "submit" }, "Filter"), el("a", { href: place(page), class: "button" }, "Clear"),
  );
  function submitted(event) {
    event.preventDefault();
    const given = new FormData(form);
    location.hash = place(page, Object.fromEntries([...given].map(([name, value]) => [name, value.trim()])));
  }
  return form;
}

/** Where in the whole this page is, and the ways on. */
export function pager(page, parameters, shownCount, totalCount) {
  const skip = skipOf(parameters);
  const range = shownCount ? `${number(skip + 1)} to ${number(skip + shownCount)} of ${number(totalCount)}` : `of ${number(totalCount)}`;
  const way = (label, to, key) => el("a", { href: place(page, { ...parameters, skip: to || "" }), class: "button", dataset: { way: key } }, label);
  const next = skip + PAGE;
  return el(
    "p", { class: "pager" },
    skip ? way("← Earlier", Math.max(0, skip - PAGE), "back") : "",
    totalCount ? el("span", {}, range) : "",
    next < Math.min(totalCount, REACH_MAX) ? way("Next →", next, "on") : "",
    totalCount > REACH_MAX && next >= REACH_MAX ? el("span", { class: "note" }, "The pages end here: choose fewer with the filters.") : "",
  );
}

export function skipOf(parameters) {
  const skip = Number.parseInt(parameters.skip ?? "0", 10);
  return Number.isFinite(skip) ? Math.min(Math.max(0, skip), REACH_MAX - PAGE) : 0;
}
