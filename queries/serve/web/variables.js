// The release's variables, their values and labels.

import { askJson, state } from "./state.js";
import { band, t } from "./words.js";

const MANY = 40, BLANKS = ["(blank)", "does not apply", "does not apply, or blank"];
export const MOST_PERIODS = 120; // most months or quarters in one table
export const FEW = 12;
let known = [];

export function setVariables(given) {
  known = given.map((v) => ({ ...v, blank: v.blank && t(v.blank), values: v.values && named(v.values) }));
}

// Values with the page's own label for a blank; all others keep the release's labels.
const named = (values) => values.map((w) => (BLANKS.includes(w.label) ? { ...w, label: t(w.label) } : w));

// Labels of an answer in the page's language: blanks, and bands made by the server.
export function inWords(answer) {
  const word = (c) => {
    const v = find(c.name), isCut = !state.groups[c.name]?.length && v?.is_ordered;
    return (text) => (BLANKS.includes(text) ? t(text) : isCut ? band(text) : text);
  };
  const said = (columns, heads) => { const words = columns.map(word); return heads.map((keys) => keys.map((text, i) => (words[i] ? words[i](text) : text))); };
  return { ...answer, row_heads: said(answer.rows, answer.row_heads), col_heads: said(answer.cols, answer.col_heads) };
}

export const variables = () => known;
export const find = (name) => known.find((v) => v.name === name);
export const label = (name) => (find(name) || { label: name }).label;
export const isDated = (v) => /DATE|TIME/.test(v.type);
export const isRanged = (v) => v.is_ordered && v.n_values > MANY;
export const listed = (words, last = t("and")) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words[words.length - 1]}`);

// Filters in words, for the title.
export function filters() {
  const kept = Object.entries(state.only).filter(([, keys]) => keys.length).map(([c, keys]) => {
    const v = find(c), words = keys.slice(0, 4).map((key) => ((v && v.values) || []).find((w) => w.key === key)?.label || key);
    return `${label(c)}: ${words.join(", ")}${keys.length > 4 ? " " + t("and {n} more", { n: keys.length - 4 }) : ""}`;
  });
  const ranged = Object.entries(state.between).filter(([, [low, high]]) => low !== "" || high !== "").map(([c, [low, high]]) => {
    const v = find(c) || { first: "", last: "" };
    return `${label(c)}: ${t("{low} to {high}", { low: low || v.first, high: high || v.last })}`;
  });
  return [...kept, ...ranged];
}

// Load all values of a variable in pages, once. Resolves to whether there is anything new to draw.
export async function loadValues(v) {
  if (v.isLoading || v.values) return false;
  v.isLoading = true;
  try {
    const found = [];
    while (found.length < v.n_values) {
      const got = await askJson("api/values", new URLSearchParams({ column: v.name, start: found.length, size: 1000 }));
      if (!got.values.length) break;
      found.push(...got.values);
    }
    v.values = named(found);
    return true;
  } finally {
    v.isLoading = false;
  }
}

// The query for a released table: its shortest column across, the others down, long ones in bands.
export function shownAs(columns) {
  const size = (c) => find(c)?.n_values ?? 0, out = new URLSearchParams();
  const across = columns.length > 1 ? [...columns].sort((a, b) => size(a) - size(b))[0] : "";
  const cols = size(across) <= FEW ? [across] : [];
  columns.filter((c) => !cols.includes(c)).forEach((c) => out.append("rows", c));
  if (across) cols.forEach((c) => out.append("cols", c));
  columns.forEach((c) => { const w = firstBand(find(c)); if (w) out.append("band." + c, w); });
  return out.toString();
}

// The default bands of a long ordered variable, if any.
export function firstBand(v) {
  if (!v || v.n_values <= MANY) return 0;
  const short = Object.keys(v.periods).find((name) => v.periods[name] <= MOST_PERIODS);
  if (short && (v.bands.length ? v.bands[0] === 1 && v.periods[short] <= MANY : true)) return short;
  return v.bands.length ? v.bands[isDated(v) ? 0 : Math.min(1, v.bands.length - 1)] : 0;
}
