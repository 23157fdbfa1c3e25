// The right panel: the table with its noise intervals and statuses, and notes on its accuracy.

import { byId, make } from "./state.js";
import { find, label, listed } from "./variables.js";
import { accuracy, onCard, locale, number, t, unit } from "./words.js";

const FIRST_ROWS = 200;
export const STATUS = {
  low: [t("low"), t("close to zero, within the noise")],
  unreliable: [t("unreliable"), t("the noise is large relative to the figure")],
  unknown: [t("no interval"), t("how far the figure may be off is not known")],
  "not released": [t("not released"), t("too few to show, or none: we do not say which")],
  "structural zero": [t("impossible"), t("excluded by the definition of the variables")],
};

const NOTHING = "–"; // a dash keeps long tables of ages readable

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat(locale, { maximumSignificantDigits: 4 });
const near = new Intl.NumberFormat(locale, { minimumFractionDigits: 3, maximumFractionDigits: 3 });

export function formatter(answer) {
  if (answer.measure === "ratio") return (x) => (x === null ? "" : near.format(x));
  if (answer.percent !== "none") return (x) => (x === null ? "" : percentage(one.format(100 * x)));
  if (answer.measure === "count" || answer.measure === "sum") return (x) => (x === null ? "" : whole.format(x));
  return (x) => (x === null ? "" : Math.abs(x) >= 1000 ? whole.format(x) : fine.format(x));
}

const share = (x, digits) => (100 * x).toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false });
export const percentage = (text) => t("{n}\u00A0%", { n: text });

// Digits of a table's percentages: enough to separate the ends of most intervals, the same in all cells.
function digitsOf(answer) {
  const { low, high } = answer.cells, known = low.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
  return [1, 2, 3].find((d) => 2 * known.filter((i) => share(low[i], d) !== share(high[i], d)).length >= known.length) ?? 1;
}

// Formatters for a table's figures and noise intervals.
function spelling(answer) {
  const format = formatter(answer), digits = isShare(answer) ? digitsOf(answer) : 0;
  if (!digits) return [format, (low, high) => t("{low} to {high}", { low: format(low), high: format(high) })];
  return [(x) => percentage(share(x, digits)), (low, high) => percentage(t("{low} to {high}", { low: share(low, digits), high: share(high, digits) }))];
}

const QUARTILES = { 0.25: t("Lower quartile"), 0.75: t("Upper quartile") };

export function caption(answer, labels, filters) {
  const by = [...answer.rows, ...answer.cols].map((c) => c.label);
  const word = { count: t("Number of {units}", { units: unit.many }), share: t("Percentage of {units}", { units: unit.many }), mean: t("Average"), median: t("Median"), sum: t("Total"),
    ratio: t("{units} as a ratio to the rest", { units: unit.many[0].toUpperCase() + unit.many.slice(1) }), quantile: QUARTILES[answer.quantile] || t("{q} quantile", { q: answer.quantile }) }[answer.measure];
  const isWeighted = answer.measure === "sum" && Boolean(find(answer.of)?.is_weight);
  const of = answer.of && !isWeighted ? t(" of {variable}", { variable: labels(answer.of) }) : "", isRatio = answer.measure === "ratio";
  const percent = { row: t("of each row"), column: t("of each column") }[answer.percent];
  return (isWeighted ? t("Weighted number of {units}", { units: unit.many }) : word) + of + (isRatio && percent ? " " + percent : "") + (isRatio && by.length ? "," : "") + (by.length ? t(" by {variables}", { variables: listed(by) }) : "") + (!isRatio && percent ? ", " + percent : "") + filters.map((f) => t("; only {filter}", { filter: f })).join("");
}

// Draws the table. `sort` is called with a column's position when its head is pressed, `whenAll` to show all rows.
export function drawTable(answer, title, { intervals, differs, sort, all, whenAll }) {
  const seen = new Set(), cell = cells(answer, intervals, seen, marker(answer, differs));
  const rows = all ? answer.row_heads.length : Math.min(answer.row_heads.length, FIRST_ROWS);
  const table = make("table", {}, make("caption", {}, make("span", {}, title)), head(answer, sort), make("tbody", {}, ...lines(answer, rows, cell)), foot(answer, cell));
  const box = byId("table");
  box.replaceChildren(table);
  box.hidden = false;
  const more = () => { whenAll(); box.focus(); };
  byId("more").replaceChildren(...(rows < answer.row_heads.length ? [
    make("span", { class: "note" }, t("Showing the first {n} of {all} rows.", { n: number(FIRST_ROWS), all: number(answer.row_heads.length) }) + " "),
    make("button", { type: "button", onclick: more }, t("Show all {n} rows", { n: number(answer.row_heads.length) }))] : []));
  const marks = differs ? [make("li", {}, make("b", {}, "▲ " + t("more") + ", ▼ " + t("less")), ": " + t("the noise intervals do not overlap; unmarked differences may be noise, or there is nothing to compare with"))] : [];
  byId("legend").replaceChildren(...marks, ...[...seen].map((s) => make("li", {}, make("b", {}, s === "structural zero" ? NOTHING + " " : "", STATUS[s][0]), ": " + STATUS[s][1])));
  hintSideways();
}

export function hintSideways() {
  const box = byId("table");
  byId("sideways").hidden = box.hidden || box.scrollWidth <= box.clientWidth + 1;
}

// The figure that cell i is compared with, as [side, position]; null if there is none.
function against(answer, way, i) {
  const width = answer.col_heads.length, row = Math.floor(i / width), column = i % width;
  if (way === "first") return row ? [answer.cells, column] : null;
  if (way === "above") return row ? [answer.cells, i - width] : null;
  if (way !== "total" || answer.measure === "ratio") return null;
  if (answer.percent === "row" && answer.col_total) return [answer.col_total, column];
  if (answer.percent === "column" && answer.row_total) return [answer.row_total, row];
  return ["mean", "median", "quantile"].includes(answer.measure) && answer.total ? [answer.total, 0] : null; // a part of a count is always less
}

const ends = (side, i) => (["not released", "structural zero"].includes(side.status[i]) ? [null] : [side.low[i], side.high[i]]);

// Marks cells whose noise interval does not overlap that of the total, the first row or the row above.
function marker(answer, way) {
  return (i) => {
    const other = way ? against(answer, way, i) : null;
    if (!other) return null;
    const [mine, its] = [ends(answer.cells, i), ends(...other)];
    if ([...mine, ...its].some((end) => end === null)) return null;
    const word = mine[0] > its[1] ? "▲ " + t("more") : mine[1] < its[0] ? "▼ " + t("less") : "";
    return word ? make("span", { class: "s d" }, word) : null;
  };
}

// Makes cells (figure, noise interval, status in words) and records which statuses occur.
function cells(answer, intervals, seen, marked) {
  const [format, between] = spelling(answer);
  return (side, i) => {
    const value = side.value[i], isKnown = value !== null, status = side.status[i] === "unreliable" && side.low[i] === null ? "unknown" : side.status[i], word = STATUS[status];
    if (word) seen.add(status);
    if (status === "structural zero") return make("td", { class: "n s-structural-zero" }, NOTHING, make("span", { class: "hidden" }, word[0]));
    const range = intervals && isKnown && side.low[i] !== null && side.high[i] !== null ? between(side.low[i], side.high[i]) : "";
    return make("td", { class: "n s-" + status.replace(" ", "-") },
      isKnown ? make("span", { class: "v" }, format(value)) : null,
      range ? make("span", { class: "i" }, make("span", { class: "hidden" }, t("from") + " "), range) : null,
      word ? make("span", { class: "s" }, word[0]) : null, side === answer.cells ? marked(i) : null);
  };
}

const hundred = () => make("td", { class: "n" }, make("span", { class: "v" }, percentage("100")));
const isShare = (answer) => answer.measure !== "ratio" && answer.percent !== "none";

// Whether the last column is "All".
const hasAll = (answer) => Boolean(answer.row_total || (answer.cols.length && ((answer.total && !answer.rows.length) || (isShare(answer) && answer.percent === "row"))));

function* lines(answer, rows, cell) {
  const width = answer.col_heads.length;
  for (let r = 0; r < rows; r++) {
    const heads = answer.rows.length ? answer.row_heads[r] : [t("All {units}", { units: unit.many })];
    const line = make("tr", {}, ...heads.map((text) => make("th", { scope: "row" }, text)));
    for (let c = 0; c < width; c++) line.append(cell(answer.cells, r * width + c));
    if (answer.row_total) line.append(cell(answer.row_total, r));
    else if (hasAll(answer)) line.append(answer.total ? cell(answer.total, 0) : hundred());
    yield line;
  }
}

// The last row: totals of the columns, or the 100 % that they are shares of.
function foot(answer, cell) {
  const width = answer.col_heads.length, isWhole = isShare(answer) && answer.rows.length && (answer.percent === "column" || !answer.cols.length);
  const side = answer.col_total || (answer.total && answer.rows.length && !answer.cols.length ? answer.total : null);
  if (!side && !isWhole) return null;
  const line = make("tr", { class: "total" }, make("th", { scope: "row", colspan: Math.max(answer.rows.length, 1) }, t("All")));
  for (let c = 0; c < width; c++) line.append(side ? cell(side, c) : hundred());
  if (hasAll(answer)) line.append(answer.total ? cell(answer.total, 0) : isShare(answer) ? hundred() : make("td"));
  return make("tfoot", {}, line);
}

function head(answer, sort) {
  const hasCols = answer.cols.length > 0, depth = answer.cols.length + (hasCols ? 1 : 0) || 1, lines = [];
  const corner = answer.rows.length ? answer.rows.map((c) => make("th", { scope: "col", rowspan: depth }, c.label)) : [make("td", { rowspan: depth })];
  const n = answer.col_heads.length, figure = isShare(answer) ? t("Percentage") : answer.measure === "count" ? t("All") : t("Value");
  const top = make("tr", {}, ...corner);
  if (hasCols) top.append(make("th", { scope: "colgroup", colspan: n, class: "over" }, make("span", {}, listed(answer.cols.map((c) => c.label)))));
  else top.append(sortable(answer, "0", figure, 1, sort));
  if (hasAll(answer)) top.append(sortable(answer, "all", t("All"), depth, answer.row_total ? sort : null));
  lines.push(top);
  for (let level = 0; level < answer.cols.length; level++) {
    const isLast = level === answer.cols.length - 1;
    lines.push(make("tr", {}, ...spans(answer.col_heads, level).map(([text, wide, at]) => (isLast ? sortable(answer, String(at), text, 1, sort)
      : make("th", { scope: "colgroup", colspan: wide }, make("span", {}, text))))));
  }
  return make("thead", {}, ...lines);
}

// A column head; a button if the rows can be sorted by it.
function sortable(answer, at, text, depth, sort) {
  const way = answer.sorted && answer.sorted.at === at ? answer.sorted.way : "";
  const attributes = { scope: "col", rowspan: depth > 1 ? depth : null, class: "n" };
  if (!sort || answer.row_heads.length < 2) return make("th", attributes, text);
  return make("th", { ...attributes, "aria-sort": { up: "ascending", down: "descending" }[way] || null },
    make("button", { type: "button", class: "sort", id: "sort-" + at, title: t("Sort by this column"), onclick: () => sort(at) },
      text, make("span", { class: "way", "aria-hidden": "true" }, "\u2060" + ({ up: "▲", down: "▼" }[way] || "↕")))); // word joiner: never wraps onto its own line
}

// Runs of equal heads down to a level: [text, length, position of the first].
function spans(heads, level) {
  const out = [];
  heads.forEach((keys, i) => {
    const same = i > 0 && keys.slice(0, level + 1).every((k, j) => k === heads[i - 1][j]) && level < keys.length - 1;
    if (same) out[out.length - 1][1]++;
    else out.push([keys[level], 1, i]);
  });
  return out;
}

export function drawWords(answer, plan) {
  const [own, english] = accuracy(answer.words, label);
  byId("words").replaceChildren(own, english && make("span", { lang: "en" }, ` ${english}`));
  byId("card-box").hidden = !answer.card.length;
  byId("card").replaceChildren(make("li", {}, answer.table.length ? t("Source: released table of {variables}.", { variables: answer.table.join(", ") }) : t("Source: released total.")), ...answer.card.map((s) => { const own = onCard(s, label); return make("li", { lang: own ? null : "en" }, own ?? s); }));
  byId("sql-box").hidden = false;
  byId("sql").textContent = plan.sql;
}

// The table as tab-separated text, for pasting into a spreadsheet.
export function asText(answer) {
  const width = answer.col_heads.length, flat = (text) => String(text).replace(/[\t\r\n]+/g, " ");
  const names = answer.cols.length ? answer.col_heads.map((k) => k.join(", ")) : [answer.measure];
  const out = [[...answer.rows.map((c) => c.label), ...names]];
  answer.row_heads.forEach((keys, r) => out.push([...keys, ...names.map((_, c) => answer.cells.value[r * width + c] ?? STATUS[answer.cells.status[r * width + c]]?.[0] ?? "")]));
  return out.map((line) => line.map(flat).join("\t")).join("\n");
}
