// The right side: the table with its noise intervals and statuses, and how sure it is, in words.

import { byId, make } from "./state.js";

const FIRST_ROWS = 200;
export const STATUS = {
  low: ["low", "few people, or none: the figure is next to nothing beside its noise"],
  unreliable: ["unreliable", "the noise is a large share of the figure"],
  "not released": ["not released", "too few people to show, or none: nobody can tell which"],
  "structural zero": ["impossible", "ruled out by how the data are defined"],
};

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });

export function formatter(answer) {
  if (answer.percent !== "none") return (x) => (x === null ? "" : one.format(100 * x) + "%");
  if (answer.measure === "count" || answer.measure === "sum") return (x) => (x === null ? "" : whole.format(x));
  return (x) => (x === null ? "" : Math.abs(x) >= 1000 ? whole.format(x) : fine.format(x));
}

export function caption(answer, labels, filters) {
  const by = [...answer.rows, ...answer.cols].map((c) => c.label);
  const word = { count: "Number of people", share: "Percentage of people", mean: "Average", median: "Median", sum: "Total", quantile: `${answer.quantile} quantile` }[answer.measure];
  const of = answer.of ? ` of ${labels(answer.of)}` : "";
  const percent = { row: ", of each row", column: ", of each column" }[answer.percent] || "";
  return word + of + (by.length ? " by " + by.join(", ") : "") + percent + filters.map((f) => "; only " + f).join("");
}

export function drawTable(answer, title, intervals, all = false) {
  const format = formatter(answer), seen = new Set();
  const cell = (side, i, tag = "td") => {
    const status = side.status[i], value = side.value[i], word = STATUS[status];
    if (word) seen.add(status);
    const known = value !== null;
    const range = intervals && known && side.low[i] !== null && side.high[i] !== null ? `${format(side.low[i])} to ${format(side.high[i])}` : "";
    return make(tag, { class: "n s-" + status.replace(" ", "-") },
      known ? make("span", { class: "v" }, format(value)) : null,
      range ? make("span", { class: "i" }, make("span", { class: "hidden" }, "between "), range) : null,
      word ? make("span", { class: "s" }, word[0]) : null);
  };
  const table = make("table", {}, make("caption", {}, title), head(answer));
  const body = make("tbody"), width = answer.col_heads.length;
  const rows = all ? answer.row_heads.length : Math.min(answer.row_heads.length, FIRST_ROWS);
  for (let r = 0; r < rows; r++) {
    const line = make("tr");
    answer.row_heads[r].forEach((text) => line.append(make("th", { scope: "row" }, text)));
    if (!answer.rows.length) line.append(make("th", { scope: "row" }, "All people"));
    for (let c = 0; c < width; c++) line.append(cell(answer.cells, r * width + c));
    if (answer.row_total) line.append(cell(answer.row_total, r));
    body.append(line);
  }
  const foot = answer.col_total || (answer.total && answer.rows.length && !answer.cols.length ? answer.total : null);
  if (foot) {
    const line = make("tr", { class: "total" }, make("th", { scope: "row", colspan: Math.max(answer.rows.length, 1) }, "All"));
    for (let c = 0; c < width; c++) line.append(cell(foot, c));
    if (answer.row_total) line.append(answer.total ? cell(answer.total, 0) : make("td", { class: "n" }, answer.percent === "none" ? "" : "100%"));
    body.append(line);
  } else if (answer.total && answer.cols.length && !answer.rows.length) {
    body.firstChild.append(cell(answer.total, 0));
  }
  table.append(body);
  const shown = byId("table");
  shown.replaceChildren(table);
  shown.hidden = false;
  byId("more").replaceChildren(...(rows < answer.row_heads.length ? [make("button", { type: "button", onclick: () => drawTable(answer, title, intervals, true) }, `Show all ${whole.format(answer.row_heads.length)} rows`)] : []));
  const marks = [...seen].map((s) => make("li", {}, make("b", {}, STATUS[s][0]), ": " + STATUS[s][1]));
  byId("legend").replaceChildren(...marks);
}

function head(answer) {
  const out = make("thead"), depth = Math.max(answer.cols.length, 1);
  const hasTotal = answer.row_total || (answer.total && answer.cols.length && !answer.rows.length);
  for (let level = 0; level < depth; level++) {
    const line = make("tr");
    if (level === 0) {
      answer.rows.forEach((c) => line.append(make("th", { scope: "col", rowspan: depth }, c.label)));
      if (!answer.rows.length) line.append(make("td", { rowspan: depth }));
    }
    if (!answer.cols.length) line.append(make("th", { scope: "col", class: "n" }, answer.percent === "none" ? "All" : "Percentage"));
    else spans(answer.col_heads, level).forEach(([text, n]) => line.append(make("th", { scope: n > 1 ? "colgroup" : "col", colspan: n > 1 ? n : null, class: "n" }, text)));
    if (hasTotal && level === 0) line.append(make("th", { scope: "col", rowspan: depth, class: "n" }, "All"));
    out.append(line);
  }
  return out;
}

// Runs of equal heads down to a level: [text, how many].
function spans(heads, level) {
  const out = [];
  heads.forEach((keys, i) => {
    const same = i > 0 && keys.slice(0, level + 1).every((k, j) => k === heads[i - 1][j]) && level < keys.length - 1;
    if (same) out[out.length - 1][1]++;
    else out.push([keys[level], 1]);
  });
  return out;
}

export function drawWords(answer, plan) {
  byId("words").textContent = answer.words;
  byId("card-box").hidden = !answer.card.length;
  byId("card").replaceChildren(...[`Answered from the released table of ${answer.table.join(", ") || "the total"}.`, ...answer.card].map((s) => make("li", {}, s)));
  byId("sql-box").hidden = false;
  byId("sql").textContent = plan.sql;
}
