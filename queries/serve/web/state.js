// The current query, its link, and requests to the server. The link is the saved query.

import { t } from "./words.js";

const named = () => Object.create(null); // by column: one may be called "constructor"
export const nothing = () => ({
  rows: [], cols: [], bands: named(), groups: named(), only: named(), between: named(),
  measure: "count", of: "", quantile: "", percent: "none", sort: null, chart: "", compare: "", odd: [],
});
export const state = nothing();

// The language named in the address is kept in all links; the browser's preference needs no mention.
const language = new URLSearchParams(location.search).get("lang") || "";
export function place(query, path = location.pathname, code = language) {
  const whole = [query, code && "lang=" + encodeURIComponent(code)].filter(Boolean).join("&");
  return whole ? `${path}?${whole}` : path;
}

for (const link of document.querySelectorAll(".kicker a")) link.href = place("", "./");
document.querySelector(".languages")?.addEventListener("click", (e) => { if (e.target.lang) e.target.href = place(address(), location.pathname, e.target.lang); });

let token = sessionStorage.getItem("token") || "";
if (location.hash.startsWith("#token=")) {
  useToken(decodeURIComponent(location.hash.slice(7)));
  history.replaceState(null, "", location.pathname + location.search);
}

export function useToken(text) {
  token = text.trim();
  sessionStorage.setItem("token", token);
}

// Whether a column is measured instead of counting rows.
export const isMeasured = () => !["count", "ratio"].includes(state.measure);

// The query as the server expects it.
export function link() {
  const out = new URLSearchParams();
  state.rows.forEach((c) => out.append("rows", c));
  state.cols.forEach((c) => out.append("cols", c));
  const shown = [...state.rows, ...state.cols];
  const own = (c) => (state.groups[c] || []).length > 0; // until there is one, the earlier bands apply
  for (const c of Object.keys(state.bands).sort()) if (shown.includes(c) && !own(c)) out.append("band." + c, state.bands[c]);
  for (const c of Object.keys(state.groups).sort()) {
    if (shown.includes(c)) for (const [label, keys] of state.groups[c]) out.append("group." + c, joined([label, ...keys]));
  }
  for (const c of Object.keys(state.only).sort()) for (const v of state.only[c]) out.append("only." + c, v);
  for (const c of Object.keys(state.between).sort()) {
    const [low, high] = state.between[c];
    if (low !== "" || high !== "") { out.append("from." + c, low); out.append("to." + c, high); }
  }
  if (state.measure === "ratio") out.append("measure", "ratio");
  else if (isMeasured() && state.of) { out.append("measure", state.measure); out.append("of", state.of); }
  if (state.measure === "quantile" && state.quantile) out.append("quantile", state.quantile);
  const percent = percentNow();
  if (percent !== "none") out.append("percent", percent);
  for (const [name, text] of state.odd) out.append(name, text);
  return out.toString();
}

// The same with what only the page knows: sort order, kind of chart, comparison.
export function address(isWhole = true) {
  const sort = state.sort ? `sort=${state.sort.way}.${state.sort.at}` : "";
  const compared = isWhole && state.compare && `compare=${encodeURIComponent(state.compare)}`;
  return [link(), sort, state.chart && `chart=${state.chart}`, compared].filter(Boolean).join("&");
}

export function readLink() {
  const given = [...new URLSearchParams(location.search)].filter(([name]) => name !== "lang");
  Object.assign(state, nothing());
  for (const [name, text] of given) {
    const dot = name.indexOf(".");
    const head = dot < 0 ? name : name.slice(0, dot), column = dot < 0 ? "" : name.slice(dot + 1);
    if (name === "rows" || name === "cols") state[name].push(text);
    else if (head === "band" && !(column in state.bands)) state.bands[column] = Number.isNaN(Number(text)) ? text : Number(text);
    else if (head === "group") readGroup(column, parts(text));
    else if (head === "only") (state.only[column] ||= []).push(text);
    else if (head === "from" || head === "to") (state.between[column] ||= ["", ""])[head === "to" ? 1 : 0] = text;
    else if (["measure", "of", "quantile", "percent"].includes(name)) state[name] = text;
    else if (/^(up|down)\.(\d+|all)$/.test(text) && name === "sort") state.sort = { way: text.split(".")[0], at: text.split(".")[1] };
    else if (name === "chart" && /^[a-z]+$/.test(text)) state.chart = text;
    else if (name === "compare") state.compare = text;
    else state.odd.push([name, text]); // the server reports what is wrong with it
  }
  const asked = new Set(new URLSearchParams(link()).keys()); // what this page would drop is passed on, so that the server reports it
  for (const [name, text] of given) if (text && !["sort", "chart", "compare"].includes(name) && !asked.has(name)) state.odd.push([name, text]);
}

const readGroup = (column, [label, ...keys]) => (state.groups[column] ||= []).push([label, keys]);

// A list as one string, separated by |; a backslash escapes.
export const joined = (list) => list.map((s) => String(s).replace(/[\\|]/g, "\\$&")).join("|");
export function parts(text) {
  const out = [""];
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "|") { out.push(""); continue; }
    if (text[i] === "\\" && i + 1 < text.length) i++;
    out[out.length - 1] += text[i];
  }
  return out;
}

// Which percentages make sense now; a ratio always has a base.
export function percentages() {
  const isRatio = state.measure === "ratio", start = isRatio ? [] : ["none"];
  if (state.measure !== "count" && !isRatio) return ["none"];
  if (state.rows.length && state.cols.length) return [...start, "total", "row", "column"];
  return state.rows.length || state.cols.length || isRatio ? [...start, "total"] : ["none"];
}

export function percentNow() {
  const allowed = percentages();
  return allowed.includes(state.percent) ? state.percent : allowed[0];
}

// The comparison named in the address: place and query of the other table; null if none or on another server.
export const PLACE = /^\/([\w.~%-]+\/)?$/;
export function comparison() {
  const [place, ...rest] = state.compare.split("?");
  return state.compare && PLACE.test(place) ? { place, query: rest.join("?") } : null;
}

class Refused extends Error {
  constructor(status, said) {
    super(said.message || t("The server gave no answer."));
    this.status = status;
    this.said = said;
  }
}

export async function ask(path, query, more = {}) {
  const headers = { ...(token ? { Authorization: "Bearer " + token } : {}), ...more.headers };
  let got;
  try {
    got = await fetch(path + (query ? "?" + query : ""), { ...more, headers });
  } catch {
    throw new Refused(0, { message: t("The server cannot be reached.") });
  }
  if (got.ok) return got;
  let said = {};
  try { said = await got.json(); } catch { /* not from our server: perhaps a proxy */ }
  throw new Refused(got.status, said);
}

export const askJson = async (path, query) => (await ask(path, query)).json();
export const send = async (path, body) => (await ask(path, "", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

const WORDED = new Set(["a", "button", "caption", "dd", "dt", "figcaption", "h1", "h2", "h3", "h4", "label", "legend", "li", "option", "p", "span", "summary", "td", "th"]);
// Make an element: make("td", {class: "n"}, "text", child, ...). Strings are inserted as text, never as markup.
export function make(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  if (WORDED.has(tag)) out.dir = "auto"; // names and values may be written from right to left
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else out.setAttribute(name, value === true ? "" : value);
  }
  out.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return out;
}

export const byId = (id) => document.getElementById(id);
