// The left panel: which variables can be added, where they are used, and which measure is shown.

import { drawPicked } from "./picked.js";
import { askJson, byId, isMeasured, make, percentages, percentNow, state } from "./state.js";
import { FEW, find, firstBand, isRanged, label, variables } from "./variables.js";
import { number, reason, t, unit } from "./words.js";

const WEIGHTED = "weighted";
let opened = "", others = new Map(), takesRequests = false, mayRequest = false, changed = () => {}, say = () => {};

export function start(whenChanged, whenSaid, hasRequests) {
  takesRequests = hasRequests;
  changed = () => {
    Object.assign(state, { sort: null, odd: [] });
    if (isMeasured()) state.of ||= measurable();
    whenChanged();
  };
  say = whenSaid;
  byId("find-box").hidden = variables().length <= FEW;
  const numbers = variables().filter((v) => v.is_numeric && v.is_released && !v.is_weight);
  if (weight()) byId("measure").options[0].after(make("option", { value: WEIGHTED }, t("Weighted number of {units}", { units: unit.many })));
  byId("of").replaceChildren(...numbers.map((v) => make("option", { value: v.name }, v.label)));
  for (const option of byId("measure").options) if (!["count", "ratio", WEIGHTED].includes(option.value)) option.hidden = option.disabled = !numbers.length;
}

// Called once: connects the page's fields.
export function listen() {
  byId("find").addEventListener("input", drawVariables);
  byId("measure").addEventListener("change", (e) => {
    const wasWeighted = isWeighted();
    [state.measure, state.quantile = ""] = e.target.value === WEIGHTED ? ["sum"] : e.target.value.split(" ");
    if (e.target.value === WEIGHTED) state.of = weight().name;
    else if (wasWeighted) state.of = "";
    changed();
  });
  byId("of").addEventListener("change", (e) => { state.of = e.target.value; changed(); });
  byId("percent").addEventListener("change", (e) => { state.percent = e.target.value; changed(); });
}

// What the plan says about every other variable: whether it can be added, and if not, why.
export function setOthers(given, isAnswerable) {
  mayRequest = takesRequests && isAnswerable;
  others = new Map(given.map((o) => [o.name, o]));
  drawVariables();
}

// Weighted counts are sums of the column of weights.
const weight = () => variables().find((v) => v.is_weight && v.is_released);
const isWeighted = () => state.measure === "sum" && Boolean(find(state.of)?.is_weight);

// The default column to measure: a numeric one that is not a row or column and is released with those that are.
function measurable() {
  const numbers = variables().filter((v) => v.is_numeric && v.is_released && !v.is_weight && !used().includes(v.name));
  return (numbers.find((v) => others.get(v.name)?.is_addable ?? true) ?? numbers[0])?.name ?? "";
}

export function draw() {
  const focused = document.activeElement && document.activeElement.id;
  drawPicked(changed, say);
  drawVariables();
  drawShown();
  const again = focused && byId(focused);
  if (again && again !== document.activeElement) again.focus();
}

function drawShown() {
  const measure = byId("measure"), wanted = isWeighted() ? WEIGHTED : [state.measure, state.measure === "quantile" ? state.quantile || "0.5" : ""].join(" ").trim();
  if (![...measure.options].some((o) => o.value === wanted)) measure.append(make("option", { value: wanted }, wanted)); // possible in links only
  measure.value = wanted;
  const isRatio = state.measure === "ratio", shown = percentNow(), allowed = percentages();
  byId("of-box").hidden = !isMeasured() || isWeighted();
  for (const option of byId("of").options) option.disabled = [...state.rows, ...state.cols].includes(option.value) && option.value !== state.of;
  if (state.of) byId("of").value = state.of;
  byId("percent").hidden = !isRatio && allowed.length < 2;
  byId("percent-of").textContent = isRatio ? t("Ratio to the rest") : t("Percentages");
  for (const radio of byId("percent").querySelectorAll("input")) {
    radio.parentElement.hidden = isRatio && radio.value === "none";
    radio.disabled = !allowed.includes(radio.value);
    radio.checked = radio.value === shown;
  }
}

function drawVariables() {
  const focused = document.activeElement && document.activeElement.id;
  const wanted = byId("find").value.trim().toLowerCase();
  const found = variables().filter((v) => (v.label + " " + v.name).toLowerCase().includes(wanted));
  const isOpen = (v) => !others.has(v.name) || others.get(v.name).is_addable;
  const shown = [...found.filter(isOpen), ...found.filter((v) => !isOpen(v))];
  byId("variables").replaceChildren(...shown.map(item), ...(found.length ? [] : [make("li", { class: "note" }, t("No matching variable."))]));
  const open = [...others.values()].filter((o) => o.is_addable).length, isGrey = others.size > open;
  byId("addable").textContent = !used().length ? t("Add a variable to rows or columns, or filter by its values.")
    : (open ? t("Variables you can still add: {n}", { n: number(open) }) : t("No further variable can be added")) + (isGrey ? t("; for the others, the reason is shown") : "") + ".";
  if (focused && byId(focused)) byId(focused).focus();
}

// The first few words of a list.
const some = (words) => words.slice(0, 5).join(", ") + (words.length > 5 ? " " + t("and {n} more", { n: number(words.length - 5) }) : "");

export const used = () => [...state.rows, ...state.cols, ...Object.keys(state.only), ...Object.keys(state.between)];

function item(v) {
  const i = variables().indexOf(v), other = others.get(v.name);
  const measured = state.of === v.name && isMeasured();
  const why = measured ? t("it is the measured variable") : other && !other.is_addable ? reason(other.reason) : "";
  const near = !measured && other?.available_with;
  const isShut = (side) => why && !(measured && side === "filter") && !isOn(side, v.name);
  const sides = [["rows", t("Rows")], ["cols", t("Columns")], ["filter", t("Filter")]];
  return make("li", { class: why ? "closed" : null },
    make("button", { type: "button", class: "name plain", id: `about${i}`, "aria-expanded": String(opened === v.name), "aria-label": t("About {name}", { name: v.label }), onclick: () => { opened = opened === v.name ? "" : v.name; drawVariables(); } },
      make("span", { id: `v${i}` }, v.label)),
    make("span", { class: "group", role: "group", "aria-labelledby": `v${i}` }, ...sides.map(([side, word]) => make("button", {
      type: "button", id: `${side}${i}`, "aria-pressed": String(isOn(side, v.name)), "aria-label": `${word}: ${v.label}`,
      "aria-disabled": isShut(side) ? "true" : null, "aria-describedby": why ? `w${i}` : null,
      onclick: () => (isShut(side) ? say(t("{name} cannot be added: {why}.", { name: v.label, why })) : toggle(side, v)),
    }, word))),
    why ? make("small", { id: `w${i}`, class: "reason" }, why, near?.length ? "; " + t("available with: {names}", { names: some(near.map(label)) }) : "") : null,
    why && !measured && mayRequest ? make("button", { type: "button", class: "plain ask", "aria-label": t("Request a table with {name}", { name: v.label }), onclick: () => toggle("rows", v) }, t("Request")) : null, // the refusal has the form
    opened === v.name ? definition(v) : null);
}

// What a variable means and where that comes from; loaded when it is opened.
function definition(v) {
  const box = make("dl", { class: "meaning" });
  const fill = (d) => {
    const line = (word, text) => (text ? [make("dt", {}, t(word)), make("dd", {}, text)] : []);
    box.append(...line("Definition", d.definition), ...line("Applies to", d.applies), ...line("Source", d.source), ...line("Contact", d.contact),
      ...line("Type", [t(d.kind), d.step ? t("in steps of {step}", { step: t(String(d.step)) }) : ""].filter(Boolean).join(", ")),
      ...line("Released", t("values: {values}; tables: {tables}", { values: number(d.n_values), tables: number(d.n_tables) })));
  };
  v.meaning ||= askJson("api/definition", new URLSearchParams({ column: v.name }));
  v.meaning.then(fill, (error) => { v.meaning = null; box.append(make("dd", {}, error.message)); });
  return box;
}

const isOn = (side, name) => (side === "filter" ? name in state.only || name in state.between : state[side].includes(name));

function toggle(side, v) {
  const on = isOn(side, v.name);
  if (side === "filter") {
    delete state.only[v.name];
    delete state.between[v.name];
    if (!on) isRanged(v) ? (state.between[v.name] = ["", ""]) : (state.only[v.name] = []);
  } else {
    state.rows = state.rows.filter((c) => c !== v.name);
    state.cols = state.cols.filter((c) => c !== v.name);
    if (!on) state[side].push(v.name);
    const isDetailed = v.name in state.bands || v.name in state.groups;
    if (!on && firstBand(find(v.name)) && !isDetailed) state.bands[v.name] = firstBand(v);
  }
  changed();
}
