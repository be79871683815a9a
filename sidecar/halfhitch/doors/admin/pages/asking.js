// Asking the door, as whoever is signed in.
//
// The token is kept for this tab (sessionStorage) and sent as a header: no cookie, so no other page
// can act with it.

import { isStrange } from "./shown.js";

const TOKEN = "halfhitch.token";
const NAME = "halfhitch.operator";
const WAIT_MS = 95_000;

/** The door has answered with an error. */
export class Refused extends Error {
  constructor(status, code, message, retryAfterS) {
    super(message);
    Object.assign(this, { status, code, retryAfterS });
  }
}

/** No answer came: of an action it is not known whether it was done. */
export class NoAnswer extends Error {}

/** An error for people. The sidecar may be of another release than the one this page came from. */
export function why(error) {
  if (!isStrange(error)) return error.message;
  return `The answer is none that this page can show: it may be of another release. Load the page again (${error.message}).`;
}

export const identity = {
  token: () => sessionStorage.getItem(TOKEN) ?? "",
  signIn: (token) => sessionStorage.setItem(TOKEN, token),
  signOut: () => {
    sessionStorage.removeItem(TOKEN);
    operable.clear();
    answered.clear();
    identity.me = null;
  },
  /** What an operator calls himself where the door does not know. */
  operator: () => sessionStorage.getItem(NAME) ?? "",
  setOperator: (name) => sessionStorage.setItem(NAME, name),
  me: null,
};

/** What may be changed at all by whoever is signed in. */
export function mayOperate() {
  return identity.me?.rights.includes("operate") ?? false;
}

const operable = new Map();

/** By producer group. Asked once for each. */
export async function operableGroups(groups) {
  if (!mayOperate()) return new Map();
  const unknown = [...new Set(groups)].filter((group) => !operable.has(group));
  for (let begin = 0; begin < unknown.length; begin += 50) {
    const asked = unknown.slice(begin, begin + 50);
    const answer = await get("v1/me", asked.map((group) => ["group", group]));
    for (const group of asked) operable.set(group, answer.may_operate[group] === true);
  }
  return operable;
}

export async function get(path, query = {}, signal = undefined) {
  const pairs = Array.isArray(query) ? query : Object.entries(query);
  const given = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return ask("GET", `${path}${text ? `?${text}` : ""}`, undefined, signal);
}

const SELDOM_MS = 30_000;
const answered = new Map();

/** What costs the door much: as it was up to half a minute ago, if only time has passed. */
export async function getSeldom(path, query, signal, isRepeat) {
  const known = answered.get(path);
  if (isRepeat && known && performance.now() < known.untilMs) return known.answer;
  const answer = await get(path, query, signal);
  answered.set(path, { answer, untilMs: performance.now() + SELDOM_MS });
  return answer;
}

export async function post(path, body) {
  return ask("POST", path, body);
}

/** One part of a path. Browsers tidy dot segments away, however they are written. */
export function segment(name) {
  if (name === "." || name === "..") {
    throw new Refused(0, "no_address", "No browser can name this one in an address, use `halfhitch parked`.", 0);
  }
  return encodeURIComponent(name);
}

async function ask(method, path, body, signal) {
  const headers = {};
  const token = identity.token();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(WAIT_MS);
  let response, text;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
      redirect: "error",
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new NoAnswer(`No answer of the sidecar (${error.message}).`);
  }
  return decoded(response, text);
}

function decoded(response, text) {
  let answer;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    throw new NoAnswer(`What answered (${response.status}) is no sidecar's admin door.`);
  }
  if (response.ok) return answer;
  const error = answer?.error ?? {};
  const retryAfterS = Number(response.headers.get("Retry-After")) || 0;
  throw new Refused(
    response.status, error.code ?? "", typeof error.message === "string" ? error.message : `The answer is ${response.status}.`, retryAfterS,
  );
}
