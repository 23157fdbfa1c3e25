// The left side: which variables stand in rows and columns, in which bands, and what is kept.

import { askJson, byId, make, percentages, state } from "./state.js";

const MANY = 40, FEW = 12, LISTED = 300;
let variables = [], others = new Map(), changed = () => {}, say = () => {};

// Filters in words, for the table's title.
export function filters() {
  const kept = Object.entries(state.only).filter(([, keys]) => keys.length).map(([c, keys]) => {
    const v = find(c), words = keys.slice(0, 4).map((key) => ((v && v.values) || []).find((w) => w.key === key)?.label || key);
    return `${label(c)}: ${words.join(", ")}${keys.length > 4 ? ` and ${keys.length - 4} more` : ""}`;
  });
  const ranged = Object.entries(state.between).filter(([, [low, high]]) => low !== "" || high !== "").map(([c, [low, high]]) => {
    const v = find(c) || { first: "", last: "" };
    return `${label(c)}: ${low || v.first} to ${high || v.last}`;
  });
  return [...kept, ...ranged];
}

export const find = (name) => variables.find((v) => v.name === name);
export const label = (name) => (find(name) || { label: name }).label;

export function start(given, whenChanged, whenSaid) {
  variables = given;
  changed = whenChanged;
  say = whenSaid;
  byId("find-box").hidden = variables.length <= FEW;
  byId("find").addEventListener("input", drawVariables);
  byId("of").replaceChildren(...variables.filter((v) => v.is_numeric && v.is_released).map((v) => make("option", { value: v.name }, v.label)));
  byId("measure").addEventListener("change", (e) => {
    state.measure = e.target.value;
    state.of ||= byId("of").value;
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

export function draw() {
  const focused = document.activeElement && document.activeElement.id;
  drawPicked();
  drawVariables();
  drawShown();
  const again = focused && byId(focused);
  if (again && again !== document.activeElement) again.focus();
}

function drawShown() {
  const measure = byId("measure"), quantile = measure.querySelector("[value=quantile]");
  if (state.measure === "quantile" && !quantile) measure.append(make("option", { value: "quantile" }, "Quantile")); // only links ask for it
  measure.value = state.measure;
  byId("of-box").hidden = state.measure === "count";
  if (state.of) byId("of").value = state.of;
  const allowed = percentages();
  const shown = allowed.includes(state.percent) ? state.percent : "none";
  for (const radio of byId("percent").querySelectorAll("input")) {
    radio.disabled = !allowed.includes(radio.value);
    radio.checked = radio.value === shown;
  }
}

function drawVariables() {
  const focused = document.activeElement && document.activeElement.id;
  const wanted = byId("find").value.trim().toLowerCase();
  const listed = variables.filter((v) => (v.label + " " + v.name).toLowerCase().includes(wanted));
  const isOpen = (v) => !others.has(v.name) || others.get(v.name).is_addable;
  const shown = [...listed.filter(isOpen), ...listed.filter((v) => !isOpen(v))];
  byId("variables").replaceChildren(...shown.map(item), ...(listed.length ? [] : [make("li", { class: "note" }, "No variable of that name.")]));
  const open = [...others.values()].filter((o) => o.is_addable).length;
  byId("addable").textContent = held().length ? `${open} more can be added to your table; the grey ones cannot, and say why.` : "Put one in rows or columns; a filter keeps some of its values only.";
  if (focused && byId(focused)) byId(focused).focus();
}

const held = () => [...state.rows, ...state.cols, ...Object.keys(state.only), ...Object.keys(state.between)];

function item(v) {
  const i = variables.indexOf(v), other = others.get(v.name);
  const measured = state.measure !== "count" && state.of === v.name;
  const why = measured ? "it is what is measured" : other && !other.is_addable ? other.reason : "";
  const sides = [["rows", "Rows"], ["cols", "Columns"], ["filter", "Filter"]];
  return make("li", { class: why ? "closed" : null },
    make("span", { class: "name", id: `v${i}` }, v.label),
    make("span", { class: "group", role: "group", "aria-labelledby": `v${i}` }, ...sides.map(([side, word]) => make("button", {
      type: "button", id: `${side}${i}`, "aria-pressed": String(isOn(side, v.name)), "aria-label": `${word}: ${v.label}`,
      "aria-disabled": why && !(measured && side === "filter") ? "true" : null, "aria-describedby": why ? `w${i}` : null,
      onclick: () => (why && !(measured && side === "filter") ? say(`${v.label} cannot be added: ${why}.`) : toggle(side, v)),
    }, word))),
    why ? make("small", { id: `w${i}`, class: "reason" }, why) : null);
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
    if (!on && v.n_values > MANY && v.bands.length && !(v.name in state.bands)) state.bands[v.name] = v.bands[Math.min(1, v.bands.length - 1)];
  }
  changed();
}

const isRanged = (v) => v.is_ordered && v.n_values > MANY;

function drawPicked() {
  const out = [];
  for (const [side, word] of [["rows", "Rows"], ["cols", "Columns"]]) {
    if (state[side].length) out.push(make("div", { class: "side" }, make("h3", {}, word), ...state[side].map((c) => chip(side, c))));
  }
  if (out.length) out.push(make("button", { type: "button", id: "swap", class: "plain", onclick: () => { [state.rows, state.cols] = [state.cols, state.rows]; changed(); } }, "Swap rows and columns"));
  const filters = [...new Set([...Object.keys(state.only), ...Object.keys(state.between)])];
  if (filters.length) out.push(make("div", { class: "side" }, make("h3", {}, "Only people with"), ...filters.map(filter)));
  const opened = [...byId("picked").querySelectorAll(".values")].map((box) => [box.id, box.scrollTop]);
  byId("picked").replaceChildren(...out);
  for (const [id, top] of opened) if (byId(id)) byId(id).scrollTop = top;
}

function chip(side, name) {
  const v = find(name), i = variables.indexOf(v), years = v && /DATE|TIMESTAMP/.test(v.type) ? " years" : "";
  const bands = !v || !v.bands.length ? null : make("select", { id: `band${i}`, "aria-label": `Detail of ${v.label}`, onchange: (e) => {
    if (e.target.value) state.bands[name] = Number(e.target.value); else delete state.bands[name];
    changed();
  } }, make("option", { value: "" }, "each value"), ...[...new Set([...v.bands, state.bands[name]].filter(Boolean))].map((w) => make("option", { value: w }, `bands of ${w.toLocaleString("en-GB")}${years}`)));
  if (bands) bands.value = state.bands[name] || "";
  return make("div", { class: "chip" }, make("span", {}, label(name)), bands,
    make("button", { type: "button", class: "plain", "aria-label": `Remove ${label(name)}`, onclick: () => { state[side] = state[side].filter((c) => c !== name); changed(); byId("h-variables").focus(); } }, "Remove"));
}

function filter(name) {
  const v = find(name), i = variables.indexOf(v);
  const remove = make("button", { type: "button", class: "plain", "aria-label": `Remove the filter on ${label(name)}`, onclick: () => { delete state.only[name]; delete state.between[name]; changed(); byId("h-variables").focus(); } }, "Remove");
  const head = make("div", { class: "chip" }, make("span", {}, label(name)), remove);
  if (!v) return head;
  const body = name in state.between ? range(v, i) : values(v, i);
  return make("fieldset", { class: "filter" }, make("legend", { class: "hidden" }, `Filter on ${v.label}`), head, body);
}

function range(v, i) {
  const kind = v.type === "DATE" ? "date" : v.is_numeric ? "number" : "text";
  const end = (at, word, shown) => make("label", {}, word + " ", make("input", {
    id: `end${at}-${i}`, type: kind, step: "any", placeholder: shown, value: state.between[v.name][at],
    onchange: (e) => { state.between[v.name][at] = e.target.value; changed(); },
  }));
  return make("div", { class: "pair" }, end(0, "from", v.first), end(1, "to", v.last), make("small", { class: "note" }, `released: ${v.first} to ${v.last}`));
}

// All values of a variable that has many, in pages; once.
async function loadValues(v) {
  if (v.isLoading) return;
  v.isLoading = true;
  try {
    const found = [];
    while (found.length < v.n_values) {
      const got = await askJson("api/values", new URLSearchParams({ column: v.name, start: found.length, size: 1000 }));
      if (!got.values.length) break;
      found.push(...got.values);
    }
    v.values = found;
    draw();
  } catch (error) {
    say(`The values of ${v.label} cannot be read: ${error.message}`);
  } finally {
    v.isLoading = false;
  }
}

function values(v, i) {
  const chosen = new Set(state.only[v.name]);
  const box = make("div", { class: "values", id: `values${i}` });
  const fill = (listed) => box.replaceChildren(...listed.map((value, j) => make("label", {}, make("input", {
    type: "checkbox", id: `only${i}-${v.values.indexOf(value)}`, checked: chosen.has(value.key),
    onchange: (e) => {
      e.target.checked ? chosen.add(value.key) : chosen.delete(value.key);
      state.only[v.name] = v.values.filter((w) => chosen.has(w.key)).map((w) => w.key);
      changed();
    },
  }), " " + value.label)));
  if (!v.values) {
    loadValues(v);
    return box;
  }
  fill(v.values.slice(0, LISTED));
  if (v.values.length <= FEW) return box;
  const search = make("input", { type: "search", id: `search${i}`, placeholder: "find a value", "aria-label": `Find a value of ${v.label}`, autocomplete: "off",
    oninput: (e) => fill(v.values.filter((w) => w.label.toLowerCase().includes(e.target.value.trim().toLowerCase())).slice(0, LISTED)) });
  return make("div", {}, search, box);
}
