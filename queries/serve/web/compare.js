// Two tables side by side: both figures, their difference, and whether noise alone could explain it.

import { STATUS, formatter } from "./show.js";
import { askJson, byId, make, state } from "./state.js";
import { inWords } from "./variables.js";
import { number, t, unit } from "./words.js";

const MOST = 400;
const names = (answer) => [...answer.rows, ...answer.cols].map((c) => c.name);

// Cell positions by row and column labels, in a fixed order of variables: two variables may share a label.
const flat = (answer, order) => {
  const out = new Map(), n = answer.col_heads.length;
  answer.row_heads.forEach((row, r) => answer.col_heads.forEach((col, c) => { const heads = [...row, ...col]; out.set(JSON.stringify(order.map((i) => heads[i])), r * n + c); }));
  return out;
};

// The other table's variables in the order of this one's; unchanged if they are different variables.
function matched(a, b) {
  const [mine, theirs] = [names(a), names(b)], order = mine.map((name) => theirs.indexOf(name));
  return mine.length === theirs.length && !order.includes(-1) ? order : theirs.map((_, i) => i);
}
const stripped = (query) => [...new URLSearchParams(query)].filter(([name]) => !["sort", "chart", "compare"].includes(name));

export async function drawCompare(answer, title, { place, query }, changed) {
  const box = byId("compare"), stop = make("button", { type: "button", class: "plain", onclick: () => { state.compare = ""; changed(); } }, t("Close the comparison"));
  const head = make("h3", {}, t("Comparison"));
  try {
    const asked = new URLSearchParams(stripped(query)), [plain, about] = await Promise.all([askJson(place + "api/tabulate", asked), askJson(place + "api/variables")]), other = inWords(plain);
    if (!state.compare) return;
    const same = ["measure", "of", "quantile", "percent"].every((name) => other[name] === answer[name]) && about.unit.en.many === unit.english;
    box.replaceChildren(head, stop, make("p", { class: "note" }, t("Compared with: {title}.", { title: `${about.title}, ${about.vintage}` }), " ",
      same ? t("“More” and “less” mark differences whose noise intervals do not overlap; smaller differences may be noise.") : t("The two tables show different measures; compare their patterns only.")), table(answer, other, title, same));
  } catch (error) {
    box.replaceChildren(head, stop, make("p", { class: "why" }, error.message));
  }
  box.hidden = false;
}

function table(a, b, title, same) {
  const [mine, theirs] = [flat(a, names(a).map((_, i) => i)), flat(b, matched(a, b))], [left, right] = [formatter(a), formatter(b)], shared = [...mine.keys()].filter((key) => theirs.has(key));
  if (!shared.length) return make("p", { class: "why" }, t("The two tables have no cells in common."));
  const columns = [...a.rows, ...a.cols].map((c) => make("th", { scope: "col" }, c.label));
  const figure = (answer, i, format) => make("td", { class: "n" }, answer.cells.value[i] === null ? null : make("span", { class: "v" }, format(answer.cells.value[i])),
    answer.cells.value[i] !== null && answer.cells.low[i] !== null ? make("span", { class: "i" }, t("{low} to {high}", { low: format(answer.cells.low[i]), high: format(answer.cells.high[i]) })) : null,
    STATUS[answer.cells.status[i]] ? make("span", { class: "s" }, STATUS[answer.cells.status[i]][0]) : null);
  const line = (key) => {
    const heads = JSON.parse(key), [i, j] = [mine.get(key), theirs.get(key)];
    return make("tr", {}, ...(heads.length ? heads : [t("All {units}", { units: unit.many })]).map((text) => make("th", { scope: "row" }, text)), figure(a, i, left), figure(b, j, right), same ? difference(a.cells, i, b.cells, j, left) : null);
  };
  const rest = mine.size - shared.length, cut = shared.length - MOST;
  return make("div", { class: "scroll", role: "region", "aria-label": t("Comparison"), tabindex: 0 }, make("table", {}, make("caption", {}, make("span", {}, title)),
    make("thead", {}, make("tr", {}, ...(columns.length ? columns : [make("td")]), ...[t("This table"), t("Other table"), ...(same ? [t("Difference")] : [])].map((word) => make("th", { scope: "col", class: "n" }, word)))),
    make("tbody", {}, ...shared.slice(0, MOST).map(line))),
    rest > 0 || cut > 0 ? make("p", { class: "note" }, [rest > 0 ? t("Figures missing from the other table: {n}.", { n: number(rest) }) : "", cut > 0 ? t("Only the first {n} are shown.", { n: number(MOST) }) : ""].join(" ")) : "");
}

// The other figure minus this one, and in words whether that exceeds the noise.
function difference(a, i, b, j, format) {
  const [x, y] = [a.value[i], b.value[j]];
  if (x === null || y === null) return make("td", { class: "n" });
  const isSure = [a.low[i], a.high[i], b.low[j], b.high[j]].every((end) => end !== null), word = !isSure ? "" : b.low[j] > a.high[i] ? t("more") : b.high[j] < a.low[i] ? t("less") : t("may be noise");
  return make("td", { class: "n" }, make("span", { class: "v" }, (y > x ? "+" : "") + format(y - x)), make("span", { class: "s" }, word));
}
