// The left side: which variables can be added and where they stand, and which figure is shown.

import { drawPicked } from "./picked.js";
import { askJson, byId, isMeasured, make, percentages, percentNow, state } from "./state.js";
import { FEW, find, firstBand, isRanged, variables } from "./variables.js";
import { number, t } from "./words.js";

let opened = "", others = new Map(), changed = () => {}, say = () => {};

export function start(whenChanged, whenSaid) {
  changed = () => {
    Object.assign(state, { sort: null, odd: [] });
    if (isMeasured()) state.of ||= measurable();
    whenChanged();
  };
  say = whenSaid;
  byId("find-box").hidden = variables().length <= FEW;
  const numbers = variables().filter((v) => v.is_numeric && v.is_released);
  byId("of").replaceChildren(...numbers.map((v) => make("option", { value: v.name }, v.label)));
  for (const option of byId("measure").options) if (!["count", "ratio"].includes(option.value)) option.hidden = option.disabled = !numbers.length;
}

// Once: what the fields of the page do.
export function listen() {
  byId("find").addEventListener("input", drawVariables);
  byId("measure").addEventListener("change", (e) => {
    [state.measure, state.quantile = ""] = e.target.value.split(" ");
    changed();
  });
  byId("of").addEventListener("change", (e) => { state.of = e.target.value; changed(); });
  byId("percent").addEventListener("change", (e) => { state.percent = e.target.value; changed(); });
}

// What the plan says of every other variable: whether it can be added, and why not.
export function setOthers(given) {
  others = new Map(given.map((o) => [o.name, o]));
  drawVariables();
}

// What an average is of, unless the reader says: numbers that are no row or column, with whom they are released.
function measurable() {
  const numbers = variables().filter((v) => v.is_numeric && v.is_released && !held().includes(v.name));
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
  const measure = byId("measure"), wanted = [state.measure, state.measure === "quantile" ? state.quantile || "0.5" : ""].join(" ").trim();
  if (![...measure.options].some((o) => o.value === wanted)) measure.append(make("option", { value: wanted }, wanted)); // only links ask for it
  measure.value = wanted;
  const isRatio = state.measure === "ratio", shown = percentNow(), allowed = percentages();
  byId("of-box").hidden = !isMeasured();
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
  byId("variables").replaceChildren(...shown.map(item), ...(found.length ? [] : [make("li", { class: "note" }, t("No variable of that name."))]));
  const open = [...others.values()].filter((o) => o.is_addable).length, isGrey = others.size > open;
  byId("addable").textContent = !held().length ? t("Put one in rows or columns; a filter keeps some of its values only.")
    : (open ? t("{n} more can be added to your table", { n: number(open) }) : t("No more can be added to your table")) + (isGrey ? t("; the grey ones cannot, and say why") : "") + ".";
  if (focused && byId(focused)) byId(focused).focus();
}

export const held = () => [...state.rows, ...state.cols, ...Object.keys(state.only), ...Object.keys(state.between)];

function item(v) {
  const i = variables().indexOf(v), other = others.get(v.name);
  const measured = state.of === v.name && isMeasured();
  const why = measured ? t("it is what is measured") : other && !other.is_addable ? other.reason : "";
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
    why ? make("small", { id: `w${i}`, class: "reason" }, why) : null,
    opened === v.name ? definition(v) : null);
}

// What a variable means, and who says so; asked for where it is opened.
function definition(v) {
  const box = make("dl", { class: "meaning" });
  const fill = (d) => {
    const line = (word, text) => (text ? [make("dt", {}, t(word)), make("dd", {}, text)] : []);
    box.append(...line("Definition", d.definition), ...line("Only for those with", d.applies), ...line("Source", d.source), ...line("Contact", d.contact),
      ...line("Held as", [t(d.kind), d.step ? t("in steps of {step}", { step: d.step }) : ""].filter(Boolean).join(", ")),
      ...line("Released", t("{values} values, in {tables} tables", { values: number(d.n_values), tables: number(d.n_tables) })));
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
