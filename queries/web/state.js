// The question on screen, its link, and the way to the server. The link is the saved query.

const named = () => Object.create(null); // by column: one may be called "constructor"
const nothing = () => ({ rows: [], cols: [], bands: named(), only: named(), between: named(), measure: "count", of: "", quantile: "", percent: "none" });
export const state = nothing();

let token = sessionStorage.getItem("token") || "";
if (location.hash.startsWith("#token=")) {
  useToken(decodeURIComponent(location.hash.slice(7)));
  history.replaceState(null, "", location.pathname + location.search);
}

export function useToken(text) {
  token = text.trim();
  sessionStorage.setItem("token", token);
}

export function link() {
  const out = new URLSearchParams();
  state.rows.forEach((c) => out.append("rows", c));
  state.cols.forEach((c) => out.append("cols", c));
  const shown = [...state.rows, ...state.cols];
  for (const c of Object.keys(state.bands).sort()) if (shown.includes(c)) out.append("band." + c, state.bands[c]);
  for (const c of Object.keys(state.only).sort()) for (const v of state.only[c]) out.append("only." + c, v);
  for (const c of Object.keys(state.between).sort()) {
    const [low, high] = state.between[c];
    if (low !== "" || high !== "") { out.append("from." + c, low); out.append("to." + c, high); }
  }
  if (state.measure !== "count" && state.of) { out.append("measure", state.measure); out.append("of", state.of); }
  if (state.measure === "quantile" && state.quantile) out.append("quantile", state.quantile);
  if (percentages().includes(state.percent) && state.percent !== "none") out.append("percent", state.percent);
  return out.toString();
}

export function readLink() {
  Object.assign(state, nothing());
  for (const [name, text] of new URLSearchParams(location.search)) {
    const dot = name.indexOf(".");
    const head = dot < 0 ? name : name.slice(0, dot), column = dot < 0 ? "" : name.slice(dot + 1);
    if (name === "rows" || name === "cols") state[name].push(text);
    else if (head === "band") state.bands[column] = Number(text);
    else if (head === "only") (state.only[column] ||= []).push(text);
    else if (head === "from" || head === "to") (state.between[column] ||= ["", ""])[head === "to" ? 1 : 0] = text;
    else if (["measure", "of", "quantile", "percent"].includes(name)) state[name] = text;
  }
}

// Which percentages make sense now.
export function percentages() {
  if (state.measure !== "count") return ["none"];
  if (state.rows.length && state.cols.length) return ["none", "total", "row", "column"];
  return state.rows.length || state.cols.length ? ["none", "total"] : ["none"];
}

export class Refused extends Error {
  constructor(status, said) {
    super(said.message || "The server gave no answer.");
    this.status = status;
    this.said = said;
  }
}

export async function ask(path, query) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  let got;
  try {
    got = await fetch(path + (query ? "?" + query : ""), { headers });
  } catch {
    throw new Refused(0, { message: "The server cannot be reached." });
  }
  if (got.ok) return got;
  let said = {};
  try { said = await got.json(); } catch { /* not ours: a proxy, perhaps */ }
  throw new Refused(got.status, said);
}

export const askJson = async (path, query) => (await ask(path, query)).json();

// Make an element: make("td", {class: "n"}, "text", child, ...). Text is text, never markup.
export function make(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else out.setAttribute(name, value === true ? "" : value);
  }
  out.append(...children.filter((c) => c !== null && c !== undefined));
  return out;
}

export const byId = (id) => document.getElementById(id);
