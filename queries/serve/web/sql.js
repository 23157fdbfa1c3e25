// The SQL editor: completion of names and keywords, recent queries, and results in pages.

import { askJson, byId, make } from "./state.js";
import { variables } from "./variables.js";
import { number, t } from "./words.js";

const KEY = "tablepack.sql", MOST = 50, SIZE = 100, SHOWN = 8;
const WORDS = "SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT count(*) sum( avg( median( min( max( DISTINCT CASE WHEN THEN ELSE END AND OR NOT IN BETWEEN IS NULL LIKE AS WITH UNION ALL ASC DESC ROUND( date_trunc( year( month( quantile_cont(".split(" ");
// Names that DuckDB reads as keywords unless they are quoted.
const RESERVED = new Set("all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate collation column columns concurrently constraint create cross default deferrable desc describe distinct do else end except false fetch for foreign freeze from full generated glob group having ilike in initially inner intersect into is isnull join lambda lateral leading left like limit map natural not notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary qualify references returning right select semi show similar some struct summarize symmetric table tablesample then to trailing true try_cast tuple union unique unpack unpivot using variadic verbose when where window with".split(" "));
let table = "data", picked = 0, say = () => {};

export function start(name, whenSaid) {
  [table, say] = [name, whenSaid];
  const text = byId("statement"), list = byId("offers");
  text.addEventListener("input", () => { picked = 0; offer(); });
  text.addEventListener("keydown", (e) => {
    const offers = [...list.children];
    if ((e.ctrlKey || e.metaKey) && e.key === "Enter") { e.preventDefault(); run(); return; }
    if (!offers.length) return;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      picked = (picked + (e.key === "ArrowDown" ? 1 : offers.length - 1)) % offers.length;
      offer();
    } else if (e.key === "Enter" || (e.key === "Tab" && !e.shiftKey)) {
      e.preventDefault();
      take(offers[picked].textContent);
    } else if (e.key === "Escape") close();
  });
  text.addEventListener("blur", () => setTimeout(close, 150));
  byId("run").addEventListener("click", () => run());
  byId("history").addEventListener("change", (e) => { if (e.target.value) text.value = e.target.value; text.focus(); });
  text.value ||= `SELECT count(*) FROM ${quoted(table)}`;
  // Enabled only now: earlier input would be neither completed nor run.
  text.disabled = byId("run").disabled = false;
  drawHistory();
}

const quoted = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) && !RESERVED.has(name) ? name : `"${name.replace(/"/g, '""')}"`);

// The word at the cursor.
function begun() {
  const text = byId("statement");
  return /[\w"äöüß-]*$/i.exec(text.value.slice(0, text.selectionStart))[0];
}

// Names and keywords with this prefix; names also by their label.
export function offers(word) {
  if (!word) return [];
  const wanted = word.replace(/^"/, "").toLowerCase();
  const names = variables().filter((v) => v.name.toLowerCase().startsWith(wanted) || v.label.toLowerCase().startsWith(wanted)).map((v) => quoted(v.name));
  const all = [...names, ...(table.toLowerCase().startsWith(wanted) ? [quoted(table)] : []), ...WORDS.filter((w) => w.toLowerCase().startsWith(wanted))];
  return [...new Set(all)].filter((w) => w.toLowerCase() !== word.toLowerCase()).slice(0, SHOWN);
}

function offer() {
  const text = byId("statement"), found = offers(begun());
  byId("offers").replaceChildren(...found.map((word, i) => make("li", { id: `offer${i}`, role: "option", "aria-selected": String(i === picked), onmousedown: (e) => { e.preventDefault(); take(word); } }, word)));
  byId("offers").hidden = !found.length;
  if (found.length) text.setAttribute("aria-activedescendant", `offer${picked}`);
  else text.removeAttribute("aria-activedescendant");
}

function close() {
  byId("offers").replaceChildren();
  byId("offers").hidden = true;
  byId("statement").removeAttribute("aria-activedescendant");
}

function take(word) {
  const text = byId("statement"), at = text.selectionStart, from = at - begun().length;
  text.setRangeText(word + (word.endsWith("(") ? "" : " "), from, at, "end");
  picked = 0;
  close();
  text.focus();
}

function remembered() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) || "[]");
    return (Array.isArray(found) ? found : []).filter((s) => typeof s === "string").slice(0, MOST);
  } catch {
    return [];
  }
}

function remember(sql) {
  try {
    localStorage.setItem(KEY, JSON.stringify([sql, ...remembered().filter((s) => s !== sql)].slice(0, MOST)));
  } catch { /* no storage available: no history */ }
  drawHistory();
}

function drawHistory() {
  const list = remembered();
  byId("history").replaceChildren(make("option", { value: "" }, t("Recent queries")), ...list.map((sql) => make("option", { value: sql }, sql.replace(/\s+/g, " ").slice(0, 80))));
  byId("history").disabled = !list.length;
}

// Run the statement; further pages come from the same result.
async function run(page = 1, answer = "") {
  const sql = byId("statement").value.trim(), box = byId("answer");
  if (!sql) return;
  close();
  box.setAttribute("aria-busy", "true");
  try {
    const asked = { sql, page, size: SIZE, intervals: byId("sql-intervals").checked, ...(answer ? { answer } : {}) };
    const got = await askJson("api/query", new URLSearchParams(asked));
    remember(sql);
    box.replaceChildren(...shown(got));
    say((got.n_rows === 1 ? t("1 row") : t("{n} rows", { n: number(got.n_rows) })) + ".", false);
  } catch (error) {
    const near = error.said?.nearest || [];
    box.replaceChildren(make("div", { class: "why" }, make("p", {}, error.message), near.length ? make("p", {}, t("Nearest tables:") + " " + near.map((n) => n.join(", ")).join("; ")) : null));
  } finally {
    box.removeAttribute("aria-busy");
  }
}

function shown(got) {
  const hidden = new Set(got.not_released.map(([i, at]) => `${i} ${at}`));
  const cell = (value, i, at) => make("td", { class: typeof value === "number" ? "n" : null }, hidden.has(`${i} ${at}`) ? "[c]" : value === null ? "" : typeof value === "number" ? number(value) : typeof value === "object" ? JSON.stringify(value) : String(value));
  const turn = (to, word) => make("button", { type: "button", onclick: () => run(to, got.answer) }, word);
  return [
    make("div", { class: "scroll", role: "region", "aria-label": t("Result"), tabindex: 0 }, make("table", {}, make("thead", {}, make("tr", {}, ...got.columns.map((c) => make("th", { scope: "col" }, c)))), make("tbody", {}, ...got.rows.map((row, i) => make("tr", {}, ...row.map((value, at) => cell(value, i, at))))))),
    got.n_pages > 1 ? make("p", { class: "bar" }, got.page > 1 ? turn(got.page - 1, t("Previous")) : null, make("span", { class: "note" }, t("Page {page} of {pages}", { page: number(got.page), pages: number(got.n_pages) })), got.page < got.n_pages ? turn(got.page + 1, t("Next")) : null) : "",
    make("p", { class: "note" }, got.source || ""), ...got.footnotes.map((w) => make("p", { class: "note" }, w)),
  ];
}
