// Text and elements: what came from outside becomes text nodes, and nothing else.
//
// The rule for text is that of wire/plain.py, as the command line has it: whatever can make a line
// say something else than it seems to is written as Python would write it.

const HIDDEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu;
const CHARACTERS_MAX = 2000;
const ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** For what the door did not tell, or not in a way that this page knows. */
export const DASH = "–";

/** What `made` gives; a dash where a field in it is of another kind than it should be. */
export function orDash(made) {
  try {
    return made();
  } catch (error) {
    if (!isStrange(error)) throw error;
    return DASH;
  }
}

/** What reading a field of another kind throws. */
export function isStrange(error) {
  return error instanceof TypeError || error instanceof RangeError;
}

/** For what cannot be done without. */
export function list(value) {
  if (!Array.isArray(value)) throw new TypeError("there is no list where one should be");
  return value;
}

/** A text, or a dash. */
export function text(value) {
  return typeof value === "string" ? value : DASH;
}

export function joined(values) {
  return list(values).map(text).join(", ");
}

/** What may be null, which is nothing; what is missing is a dash. */
export function maybe(value) {
  return value === null ? "" : text(value);
}

export function stateClass(state) {
  return ["pending", "committed", "rolled_back", "parked"].includes(state) ? state : "";
}

/** A name of ours, as people write it. */
export function words(name) {
  return text(name).replaceAll("_", " ");
}

/** The text in one line, all of it visible. */
export function shown(raw) {
  return String(raw).replace(HIDDEN, escaped);
}

function escaped(character) {
  if (character === " ") return character;
  if (ESCAPES[character]) return ESCAPES[character];
  const hex = character.codePointAt(0).toString(16);
  if (hex.length <= 2) return `\\x${hex.padStart(2, "0")}`;
  return hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

/** As above, and cut where nobody would read on. */
export function cut(raw, max = CHARACTERS_MAX) {
  const characters = [...shown(raw)];
  if (characters.length <= max) return characters.join("");
  return `${characters.slice(0, max).join("")}… (${characters.length - max} more)`;
}

/**
 * An element. Properties are ours alone: names from outside never become one. Links lead to places
 * within the console.
 */
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "dataset") Object.assign(element.dataset, value);
    else if (key === "href" && !String(value).startsWith("#")) throw new Error("a link outside");
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(isThere).map(node));
  return element;
}

function isThere(child) {
  return child !== null && child !== undefined && child !== "";
}

function node(child) {
  if (child instanceof Node) return child;
  const isPlain = typeof child === "string" || Number.isFinite(child);
  return document.createTextNode(isPlain ? cut(child) : DASH);
}

/** A place within the console. */
export function place(page, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  const query = new URLSearchParams(given).toString();
  return `#${page}${query ? `?${query}` : ""}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** 12,345 */
export function number(count) {
  return Number.isFinite(count) ? count.toLocaleString("en-US") : DASH;
}

/** 42s, 3m05s, 2h10m, 3d04h: as the command line writes it. */
export function age(seconds) {
  if (!Number.isFinite(seconds)) return DASH;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d${two(Math.floor((whole % 86400) / 3600))}h`;
}

/** By the clock of whoever looks. */
export function moment(ms) {
  if (ms === null) return "";
  const at = new Date(Number.isFinite(ms) ? ms : NaN);
  if (Number.isNaN(at.getTime())) return DASH;
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${time}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };

/** Seconds of 30s, 10m, 1h30m; NaN for what is none. */
export function seconds(typed) {
  const trimmed = typed.trim();
  if (!/^(\d+(\.\d+)?[smhd])+$/.test(trimmed)) return NaN;
  let sum = 0;
  for (const [, count, unit] of trimmed.matchAll(/(\d+(?:\.\d+)?)([smhd])/g)) sum += count * UNITS[unit];
  return sum;
}
