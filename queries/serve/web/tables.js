// What else is released: links to tables, for those who look around and for those who were refused.

import { held } from "./choose.js";
import { askJson, byId, make } from "./state.js";
import { label, listed, shownAs } from "./variables.js";

const LISTED = 30;
let tables = null, go = () => {};

// Once: `whenGone` is called with the query of the table that was picked.
export function listenTables(whenGone) {
  go = whenGone;
  byId("tables-box").addEventListener("toggle", () => { if (byId("tables-box").open) drawTables(); });
  byId("find-table").addEventListener("input", drawTables);
}

export function tableLink(columns) {
  const query = shownAs(columns);
  return make("a", { href: "?" + query, onclick: (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    go(query);
  } }, listed(columns.map(label)) || "Everybody");
}

// All released tables; asked for once.
export async function released() {
  return (tables ||= (await askJson("api/tables")).tables);
}

// The list, those with what is on screen first.
export async function drawTables() {
  if (!byId("tables-box").open) return;
  try {
    await released();
  } catch (error) {
    byId("tables").replaceChildren(make("li", {}, error.message));
    return;
  }
  const mine = held(), wanted = byId("find-table").value.trim().toLowerCase();
  const named = tables.filter((t) => t.columns.map((c) => label(c) + " " + c).join(" ").toLowerCase().includes(wanted));
  const shared = (t) => mine.filter((c) => t.columns.includes(c)).length;
  const found = mine.length && !wanted ? [...named].sort((a, b) => shared(b) - shared(a) || a.columns.length - b.columns.length) : named;
  const rest = found.length - LISTED;
  byId("tables").replaceChildren(...found.slice(0, LISTED).map((t) => make("li", {}, tableLink(t.columns), make("small", {}, sure(t)))),
    found.length ? "" : make("li", {}, "No table has that."), rest > 0 ? make("li", { class: "note" }, `and ${rest} more: type to find them`) : "");
}

function sure(table) {
  const filled = table.suppressed_share === null ? "" : `, ${(100 * table.suppressed_share).toFixed(1)}% filled in`;
  return ` ${table.cells.toLocaleString("en-GB")} combinations${filled}`;
}
