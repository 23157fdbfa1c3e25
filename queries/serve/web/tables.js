// Links to released tables: the full list, and those suggested when a query is refused.

import { used } from "./choose.js";
import { askJson, byId, make, place } from "./state.js";
import { label, listed, shownAs } from "./variables.js";
import { locale, number, t } from "./words.js";

const LISTED = 30;
let tables = null, go = () => {};

// Called once: `whenGone` gets the query of the selected table.
export function listenTables(whenGone) {
  go = whenGone;
  byId("tables-box").addEventListener("toggle", () => { if (byId("tables-box").open) drawTables(); });
  byId("find-table").addEventListener("input", drawTables);
}

export function tableLink(columns) {
  const query = shownAs(columns);
  return make("a", { href: place(query), onclick: (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    go(query);
  } }, listed(columns.map(label)) || t("Grand total"));
}

// All released tables, loaded once.
export async function released() {
  return (tables ||= (await askJson("api/tables")).tables);
}

// The list, tables with the selected variables first.
export async function drawTables() {
  if (!byId("tables-box").open) return;
  try {
    await released();
  } catch (error) {
    byId("tables").replaceChildren(make("li", {}, error.message));
    return;
  }
  const mine = used(), wanted = byId("find-table").value.trim().toLowerCase();
  const named = tables.filter((one) => one.columns.map((c) => label(c) + " " + c).join(" ").toLowerCase().includes(wanted));
  const shared = (one) => mine.filter((c) => one.columns.includes(c)).length;
  const found = mine.length && !wanted ? [...named].sort((a, b) => shared(b) - shared(a) || a.columns.length - b.columns.length) : named;
  const rest = found.length - LISTED;
  byId("tables").replaceChildren(...found.slice(0, LISTED).map((one) => make("li", {}, tableLink(one.columns), make("small", {}, details(one)))),
    found.length ? "" : make("li", {}, t("No matching table.")), rest > 0 ? make("li", { class: "note" }, t("{n} more: type to search", { n: number(rest) })) : "");
}

function details(table) {
  const filled = table.suppressed_share === null ? "" : t("; imputed: {share}\u00A0%", { share: (100 * table.suppressed_share).toLocaleString(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 }) });
  return ` ${t("cells: {n}", { n: number(table.cells) })}${filled}`;
}
