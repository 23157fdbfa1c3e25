// Custom groups: named sets of categories, and bands of numbers with custom limits.

import { byId, make, state } from "./state.js";
import { listed, variables } from "./variables.js";
import { t } from "./words.js";

const drafts = new Map(); // selected but not yet grouped, by column

export function ownGroups(v, changed, say, picker) {
  const i = variables().indexOf(v), groups = state.groups[v.name], draft = drafts.get(v.name) || { keys: new Set(), text: "" };
  drafts.set(v.name, draft);
  const taken = new Set(groups.flatMap(([, keys]) => keys)), free = (v.values || []).filter((w) => !taken.has(w.key));
  const words = (keys) => keys.map((key) => v.values?.find((w) => w.key === key)?.label || key).join(", ");
  const ungroup = (at) => { groups.splice(at, 1); changed(); byId(`name-${i}`)?.focus(); };
  const close = () => {
    const keys = free.filter((w) => draft.keys.has(w.key)).map((w) => w.key), text = draft.text.trim() || words(keys);
    if (!keys.length) return say(t("Select the values of the group first."));
    if (groups.some(([name]) => name === text) || free.some((w) => w.label === text && !draft.keys.has(w.key))) return say(t("“{name}” already exists; choose another name.", { name: text }));
    groups.push([text, keys]);
    drafts.delete(v.name);
    changed();
    byId(`name-${i}`)?.focus();
    return say(t("Group created: {name}.", { name: text }));
  };
  const made = groups.map(([text, keys], at) => make("div", { class: "chip made" }, make("span", {}, text, make("small", {}, words(keys))),
    make("button", { type: "button", class: "plain", "aria-label": t("Ungroup {name}", { name: text }), onclick: () => ungroup(at) }, t("Ungroup"))));
  const tick = (value, on) => { on ? draft.keys.add(value.key) : draft.keys.delete(value.key); };
  const name = make("input", { type: "text", id: `name-${i}`, value: draft.text, autocomplete: "off", maxlength: 100, oninput: (e) => { draft.text = e.target.value; },
    onkeydown: (e) => { if (e.key === "Enter") close(); } });
  return make("fieldset", { class: "filter own" }, make("legend", {}, t("Custom groups of {name}", { name: v.label })), ...made,
    v.values && !free.length ? null : picker(v, free, "own", draft.keys, tick),
    v.values && !free.length ? null : make("div", { class: "pair" }, make("label", {}, t("Name") + " ", name), make("button", { type: "button", onclick: close }, t("Group selected values"))),
    make("small", { class: "note" }, t("Values outside the groups stay separate; use a filter to remove them.")));
}

// Distance between neighbouring values (for dates, years); 0 if bands cannot have exact limits.
export const stepOf = (v) => (/^(BIGINT|INTEGER|DATE)$/.test(v.type) ? 1 : 10 ** -Number(/^DECIMAL\(\d+,\s*(\d+)\)$/.exec(v.type)?.[1] ?? Infinity));

// Bands from their lower limits (for dates, years): label and range of each.
export function cut(v, starts) {
  if (!starts.length) return [];
  const digits = Math.max(0, Math.round(-Math.log10(stepOf(v)))), text = (x) => x.toFixed(digits), isDate = v.type === "DATE";
  const day = (words, of) => (isDate ? `${words.padStart(4, "0")}-${of}` : words), low = (x) => day(text(x), "01-01"), high = (x) => day(text(x - stepOf(v)), "12-31");
  const bands = starts.map((x, i) => {
    const next = starts[i + 1];
    if (next === undefined) return [t(isDate ? "{n} and later" : "{n} and over", { n: text(x) }), [`${low(x)}..`]];
    const last = text(next - stepOf(v));
    return [text(x) === last ? last : t("{low} to {high}", { low: text(x), high: last }), [`${low(x)}..${high(next)}`]];
  });
  if (starts[0] <= Number(isDate ? v.first.slice(0, 4) : v.first)) return bands;
  return [[t(isDate ? "before {n}" : "under {n}", { n: text(starts[0]) }), [`..${high(starts[0])}`]], ...bands];
}

export function ownBands(v, changed, say) {
  const i = variables().indexOf(v), groups = state.groups[v.name];
  const starts = groups.flatMap(([, members]) => members.map((m) => m.split("..")[0])).filter(Boolean).map((m) => (v.type === "DATE" ? m.slice(0, 4) : m));
  const read = (e) => {
    const numbers = e.target.value.split(/[\s;,]+/).filter(Boolean).map(Number);
    if (numbers.some((x) => !Number.isFinite(x))) return say(t("Enter numbers separated by spaces or commas."));
    const sorted = [...new Set(numbers)].sort((a, b) => a - b), given = cut(v, starts.map(Number)).map(([text]) => text);
    const names = new Map(groups.map(([text, members]) => [members.join("|"), text]));
    const bands = cut(v, sorted), now = bands.map(([text, members]) => [names.get(members.join("|")) ?? text, members]);
    state.groups[v.name] = new Set(now.map(([text]) => text)).size < now.length ? bands : now; // a name given in a link stays with its band
    const lost = groups.map(([text]) => text).filter((text) => !given.includes(text) && !state.groups[v.name].some(([name]) => name === text));
    changed();
    return lost.length ? say(t("Bands removed: {names}.", { names: listed(lost) })) : undefined;
  };
  return make("fieldset", { class: "filter own" }, make("legend", {}, t("Custom bands of {name}", { name: v.label })),
    make("label", { for: `cuts-${i}` }, v.type === "DATE" ? t("First years of the bands") : t("Lower limits of the bands")),
    make("input", { type: "text", id: `cuts-${i}`, autocomplete: "off", placeholder: v.type === "DATE" ? t("for example 2000, 2010") : t("for example 16, 25, 65"), value: starts.join(", "), onchange: read }),
    make("small", { class: "note" }, t("released: {first} to {last}", { first: v.first, last: v.last })));
}
