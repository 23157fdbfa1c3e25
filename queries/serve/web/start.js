// The start page: charts of the main tables, and links to more.

import { legend, small } from "./chart.js";
import { caption } from "./show.js";
import { askJson, byId, make, place } from "./state.js";
import { released } from "./tables.js";
import { firstBand, inWords, isDated, label, listed, variables } from "./variables.js";
import { t, unit } from "./words.js";

const PICTURES = 6, QUESTIONS = 10, FEW = 12;
let number = 0, go = () => {};

export const listenStart = (whenGone) => { go = whenGone; };

const isShort = (v) => v && !v.is_ordered && v.n_values > 1 && v.n_values <= FEW && !/_id$/.test(v.name);
const isLong = (v) => v && v.is_ordered && firstBand(v);
// Whether averages differ visibly on an axis from zero: those of years of birth do not.
const isTelling = (v) => v.is_numeric && !v.is_weight && v.last - v.first >= v.first;

// The query for a time series, without a last period that lacks more than twice the usual gap between dates: it is incomplete.
function timed(v) {
  const width = firstBand(v), months = { month: 1, quarter: 3, year: 12 }[width] ?? 12 * width, day = (text) => Date.parse(text.slice(0, 10)) / 864e5;
  const last = new Date(v.last.slice(0, 10)), month = Math.floor((last.getUTCFullYear() * 12 + last.getUTCMonth()) / months) * months;
  const start = (n) => Date.UTC(Math.floor(n / 12), n % 12) / 864e5, missing = start(month + months) - day(v.last) - 1, gap = (day(v.last) - day(v.first)) / v.n_values;
  const before = new Date((start(month) - 1) * 864e5).toISOString().slice(0, 10), end = v.type === "DATE" ? before : before + "T23:59:59";
  return [["rows", v.name], ["band." + v.name, width], ...(missing > 2 * gap && before > v.first ? [["from." + v.name, ""], ["to." + v.name, end]] : [])];
}

// Queries that the released tables answer, those worth a chart first.
export function questions(tables) {
  const has = tables.filter((table) => !table.is_modelled).map((table) => new Set(table.columns)), released = (...names) => has.some((columns) => names.every((c) => columns.has(c)));
  const known = variables().filter((v) => v.is_released), shorts = known.filter(isShort), longs = known.filter((v) => isLong(v) && !isDated(v)), dates = known.filter((v) => v.is_ordered && isDated(v) && firstBand(v));
  const out = { pyramid: [], mean: [], parts: [], one: [], time: [] };
  const ask = (kind, ...pairs) => out[kind].push(new URLSearchParams(pairs).toString());
  const band = (v) => ["band." + v.name, v.bands[0]];
  for (const v of longs) for (const by of shorts) if (by.n_values === 2 && released(v.name, by.name) && v.n_values <= 130) ask("pyramid", ["rows", v.name], ["cols", by.name], band(v));
  for (const v of known.filter(isTelling)) for (const by of [...shorts].sort((x, y) => (y.n_values > 2) - (x.n_values > 2))) if (released(v.name, by.name)) ask("mean", ["rows", by.name], ["measure", "mean"], ["of", v.name]);
  for (const v of shorts) for (const by of shorts) if (v !== by && by.n_values > 2 && by.n_values < 7 && v.n_values > 3 && released(v.name, by.name)) ask("parts", ["rows", v.name], ["cols", by.name], ["percent", "row"]);
  for (const v of shorts) if (v.n_values > 2) ask("one", ["rows", v.name]);
  for (const v of dates) ask("time", ...timed(v));
  for (const v of longs) ask("one", ["rows", v.name], ["band." + v.name, firstBand(v)]);
  return mixed(out);
}

// Take the kinds in turn, preferring variables that have been used least.
function mixed(kinds) {
  const out = [], often = new Map(), lists = Object.values(kinds);
  const names = (query) => [...new URLSearchParams(query)].filter(([name]) => ["rows", "cols", "of"].includes(name)).map(([, column]) => column);
  const weight = (query) => names(query).reduce((sum, c) => sum + (often.get(c) || 0) ** 2, 0);
  while (lists.some((list) => list.length) && out.length < PICTURES + QUESTIONS) {
    for (const list of lists) {
      if (!list.length) continue;
      const [best] = [...list].sort((a, b) => weight(a) - weight(b));
      list.splice(list.indexOf(best), 1);
      names(best).forEach((c) => often.set(c, (often.get(c) || 0) + 1));
      out.push(best);
    }
  }
  return out;
}

// A query in words: "Average Income by Region".
function words(query) {
  const given = new URLSearchParams(query), by = listed([...given.getAll("rows"), ...given.getAll("cols")].map(label));
  if (given.get("measure") === "mean") return t("Average {of} by {by}", { of: label(given.get("of")), by });
  return given.get("percent") === "row" ? t("{what} by {row}, in\u00A0%", { what: label(given.get("cols")), row: label(given.get("rows")) }) : t("{units} by {by}", { units: unit.many[0].toUpperCase() + unit.many.slice(1), by });
}

const opened = (query) => (e) => {
  if (e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  go(query);
};

// Shown as long as nothing is selected.
export async function drawStart(isNothing) {
  const mine = ++number, box = byId("start");
  box.hidden = !isNothing;
  if (!isNothing || byId("pictures").childElementCount) return;
  const tables = await released();
  if (mine !== number) return;
  const asked = questions(tables), shown = asked.slice(0, PICTURES);
  byId("questions").replaceChildren(...asked.slice(PICTURES).map((query) => make("li", {}, make("a", { href: place(query), onclick: opened(query) }, words(query)))));
  byId("questions-box").hidden = asked.length <= PICTURES;
  const cards = shown.map((query) => make("li", { class: "card" }, make("a", { href: place(query), onclick: opened(query) }, words(query))));
  byId("pictures").replaceChildren(...cards);
  for (const [i, query] of shown.entries()) {
    if (mine !== number) { byId("pictures").replaceChildren(); return; } // redrawn when the user comes back
    try {
      await fill(cards[i], query);
    } catch {
      cards[i].remove(); // no message needed: opening the table shows the reason
    }
  }
}

async function fill(card, query) {
  const answer = inWords(await askJson("api/tabulate", query)), known = answer.cells.value.filter((v) => v !== null).length;
  const svg = known * 2 > answer.cells.value.length ? small(answer, caption(answer, label, []), 340) : null;
  if (!svg) { card.remove(); return; }
  card.append(...[legend(answer), svg].filter(Boolean));
}
