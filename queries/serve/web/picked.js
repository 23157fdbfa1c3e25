// The selection: variables in rows and columns with their level of detail, and filters with their values.

import { ownBands, ownGroups, stepOf } from "./groups.js";
import { byId, make, nothing, state } from "./state.js";
import { FEW, MOST_PERIODS, find, isDated, label, loadValues, variables } from "./variables.js";
import { number, t, unit } from "./words.js";

const LISTED = 300, PERIODS = { month: t("months"), quarter: t("quarters"), year: t("years") };
const searches = new Map(); // search texts by list, kept across redraws
let changed = () => {}, say = () => {};

export function drawPicked(whenChanged, whenSaid) {
  [changed, say] = [whenChanged, whenSaid];
  const out = [];
  for (const [side, word] of [["rows", t("Rows")], ["cols", t("Columns")]]) {
    if (state[side].length) out.push(make("div", { class: "side" }, make("h3", {}, word), ...state[side].map((c, i) => chip(side, c, i))));
  }
  const kept = [...new Set([...Object.keys(state.only), ...Object.keys(state.between)])];
  if (kept.length) out.push(make("div", { class: "side" }, make("h3", {}, t("Only {units} with", { units: unit.many })), ...kept.map(filter)));
  const isMeasured = state.measure !== "count";
  if (out.length || isMeasured) out.push(make("p", { class: "acts" },
    state.rows.length + state.cols.length ? make("button", { type: "button", id: "swap", class: "plain", onclick: swap }, t("Swap rows and columns")) : null,
    make("button", { type: "button", id: "reset", class: "plain", onclick: reset }, t("Start again"))));
  const opened = [...byId("picked").querySelectorAll(".values")].map((box) => [box.id, box.scrollTop]);
  byId("picked").replaceChildren(...out);
  for (const [id, top] of opened) if (byId(id)) byId(id).scrollTop = top;
}

function swap() {
  [state.rows, state.cols] = [state.cols, state.rows];
  changed();
}

function reset() {
  Object.assign(state, nothing());
  searches.clear();
  changed();
  byId("h-variables").focus();
  say(t("Selection cleared; the browser's Back button restores it."));
}

const plain = (text, described, onclick, id) => make("button", { type: "button", class: "plain", id, "aria-label": described, title: described === text ? null : described, onclick }, text);

function chip(side, name, at) {
  const v = find(name), list = state[side];
  const up = () => { [list[at - 1], list[at]] = [name, list[at - 1]]; changed(); };
  const remove = () => { state[side] = list.filter((c) => c !== name); changed(); byId("h-variables").focus(); };
  const line = make("div", { class: "chip" }, make("span", {}, label(name)), v ? detail(v) : null,
    make("span", { class: "group" }, at ? plain(t("Move up"), t("Move {name} before {other}", { name: label(name), other: label(list[at - 1]) }), up, `up${variables().indexOf(v)}`) : null,
      plain(t("Remove"), t("Remove {name}", { name: label(name) }), remove)));
  if (!v || !(name in state.groups)) return line;
  return make("div", {}, line, v.is_ordered ? ownBands(v, changed, say) : ownGroups(v, changed, say, picker));
}

// Single values, bands of some width, or custom groups.
function detail(v) {
  const isClock = v.type === "TIME", years = isDated(v) && !isClock, name = v.name, periods = Object.keys(v.periods);
  const widths = [...new Set([...v.bands, state.bands[name]].filter((w) => w && !PERIODS[w]))];
  const isOwn = name in state.groups, canOwn = v.is_ordered ? stepOf(v) > 0 && v.bands.length : v.n_values > 2;
  if (!widths.length && !canOwn && !isOwn && !periods.length) return null;
  const word = (w) => (w === 1 && years ? t("years") : wide(w)), wide = (w) => (isClock ? t("bands of {n} minutes", { n: w }) : t(years ? "bands of {n} years" : "bands of {n}", { n: number(w) }));
  const out = make("select", { id: `band${variables().indexOf(v)}`, "aria-label": t("Level of detail: {name}", { name: v.label }), onchange: (e) => {
    delete state.groups[name];
    if (e.target.value === "own") state.groups[name] = []; // the bands stay until there is a group
    else if (PERIODS[e.target.value]) inPeriods(v, e.target.value);
    else if (e.target.value) state.bands[name] = Number(e.target.value);
    else delete state.bands[name];
    changed();
  } }, make("option", { value: "" }, t("single values")), ...periods.map((w) => make("option", { value: w }, PERIODS[w])), ...widths.map((w) => make("option", { value: w }, word(w))),
  canOwn || isOwn ? make("option", { value: "own" }, v.is_ordered ? t("custom bands") : t("custom groups")) : null);
  out.value = isOwn ? "own" : state.bands[name] || "";
  return out;
}

// Months, quarters or years; of a long time only the last ones that fit in one table.
function inPeriods(v, period) {
  state.bands[v.name] = period;
  const [low, high] = state.between[v.name] ?? ["", ""];
  if (v.periods[period] <= MOST_PERIODS || low !== "" || v.name in state.only) return;
  const end = (high || v.last).slice(0, 10), years = { month: 5, quarter: 20, year: 100 }[period], first = `${String(Number(end.slice(0, 4)) - years + 1).padStart(4, "0")}-01-01`;
  state.between[v.name] = [v.type === "DATE" ? first : first + "T00:00:00", high];
  say(t("Too many for one table; showing those from {first}. You can change the filter.", { first }));
}

function filter(name) {
  const v = find(name);
  const remove = plain(t("Remove"), t("Remove the filter on {name}", { name: label(name) }), () => { delete state.only[name]; delete state.between[name]; changed(); byId("h-variables").focus(); });
  const head = make("div", { class: "chip" }, make("span", {}, label(name)), remove);
  if (!v) return head;
  const body = name in state.between ? range(v) : kept(v);
  return make("fieldset", { class: "filter" }, make("legend", { class: "hidden" }, t("Filter on {name}", { name: v.label })), head, body);
}

function range(v) {
  const i = variables().indexOf(v), kind = { DATE: "date", TIME: "time" }[v.type] ?? (v.is_numeric ? "number" : "text");
  const end = (at, word, shown) => make("label", {}, word + " ", make("input", {
    id: `end${at}-${i}`, type: kind, step: "any", placeholder: shown, value: state.between[v.name][at],
    onchange: (e) => { state.between[v.name][at] = e.target.value; changed(); },
  }));
  return make("div", { class: "pair" }, end(0, t("from"), v.first), end(1, t("to"), v.last), make("small", { class: "note" }, t("released: {first} to {last}", { first: v.first, last: v.last })));
}

// The values of a filter; an empty selection keeps all.
function kept(v) {
  const chosen = new Set(state.only[v.name]);
  const keep = () => { state.only[v.name] = v.values.filter((w) => chosen.has(w.key)).map((w) => w.key); changed(); };
  const tick = (value, on) => { on ? chosen.add(value.key) : chosen.delete(value.key); keep(); };
  const all = (found) => { found.forEach((w) => chosen.add(w.key)); keep(); };
  return picker(v, v.values, "only", chosen, tick, { all, none: () => { chosen.clear(); keep(); } });
}

// A list of values to select, with a search field if it is long.
function picker(v, given, kind, chosen, tick, whole = null) {
  const i = variables().indexOf(v), at = kind + i;
  if (!v.values) {
    loadValues(v).then((isNew) => isNew && drawPicked(changed, say), (error) => say(t("The values of {name} could not be loaded: {why}", { name: v.label, why: error.message })));
    return make("p", { class: "note" }, t("Loading values …"));
  }
  const box = make("div", { class: "values", id: `values-${at}` }), isLong = given.length > FEW;
  const found = () => given.filter((w) => w.label.toLowerCase().includes((searches.get(at) || "").trim().toLowerCase()));
  const line = (value) => make("label", {}, make("input", {
    type: "checkbox", id: `${at}-${v.values.indexOf(value)}`, checked: chosen.has(value.key), onchange: (e) => tick(value, e.target.checked),
  }), " " + value.label);
  const fill = () => {
    const list = found(), rest = list.length - LISTED;
    box.replaceChildren(...list.slice(0, LISTED).map(line), list.length ? "" : make("p", { class: "note" }, t("No matching value.")), rest > 0 ? make("p", { class: "note" }, t("{n} more: type to search", { n: number(rest) })) : "");
  };
  fill();
  const search = !isLong ? null : make("input", { type: "search", id: `search-${at}`, value: searches.get(at) || "", placeholder: t("find a value"), "aria-label": t("Find a value of {name}", { name: v.label }), autocomplete: "off",
    oninput: (e) => { searches.set(at, e.target.value); fill(); } });
  const counted = whole ? make("span", { class: "note" }, chosen.size ? t("{n} of {all} selected", { n: number(chosen.size), all: number(given.length) }) : t("Nothing selected: all included")) : null;
  const acts = !whole ? null : make("div", { class: "acts" }, counted, make("span", { class: "group" },
    isLong ? plain(t("Select these"), t("Select all listed values of {name}", { name: v.label }), () => whole.all(found()), `all-${at}`) : null,
    chosen.size ? plain(t("Clear"), t("Clear the selection of {name}", { name: v.label }), () => { whole.none(); byId(`values-${at}`)?.querySelector("input")?.focus(); }) : null));
  return make("div", {}, search, box, acts);
}
