// Entry point: starts the page and loads a new table whenever the selection changes.

import * as choose from "./choose.js";
import { drawChart, listenChart, save } from "./chart.js";
import { folded, ordered, turned } from "./order.js";
import { drawStart, listenStart } from "./start.js";
import { asText, caption, drawTable, drawWords, hintSideways } from "./show.js";
import { address, ask, askJson, byId, comparison, link, make, place, readLink, state, useToken } from "./state.js";
import { drawTables, listenTables, tableLink } from "./tables.js";
import { filters, find, inWords, label, listed, loadValues, setVariables } from "./variables.js";
import { number as spelled, t, unit, unitWords } from "./words.js";

let shown = null, number = 0, waiting = 0, fading = 0, saved = null, takesRequests = false, release = t("Table builder");

const WORKING = t("Calculating …");

const isRead = () => !byId("live").classList.contains("hidden") && byId("live").textContent !== WORKING;

// Announce a message: always to screen readers, and on screen for a few seconds unless the change is visible anyway.
function say(text, isSeen = true) {
  const live = byId("live");
  if (!isSeen && isRead()) { // a visible message is still being read
    live.querySelector("span")?.remove();
    live.append(make("span", { class: "hidden" }, " " + text));
    return;
  }
  clearTimeout(fading);
  live.textContent = text;
  live.classList.toggle("hidden", !isSeen || !text);
  if (isSeen) fading = setTimeout(() => live.classList.add("hidden"), 8000);
}

function changed() {
  choose.draw();
  number++; // answers to earlier requests are ignored
  document.body.setAttribute("aria-busy", "true");
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 120);
}

const keepAddress = () => history.pushState(null, "", place(address()));

async function refresh({ keep = false } = {}) {
  const mine = ++number, question = link();
  drawStart(!address()).catch(() => {}); // the page works without the pictures
  if (!keep && location.pathname + location.search !== place(address())) keepAddress();
  document.body.setAttribute("aria-busy", "true");
  const late = setTimeout(() => { if (!isRead()) say(WORKING); }, 700); // never replaces a message that is still shown
  try {
    const plan = await askJson("api/plan", question);
    if (mine !== number) return;
    choose.setOthers(plan.others, plan.is_answerable);
    if (!plan.is_answerable) { refuse(plan); return; }
    const answer = await askJson("api/tabulate", question);
    if (mine !== number) return;
    shown = { answer, plan, title: caption(answer, label, filters()) };
    byId("problem").replaceChildren();
    drawAll();
    announceTable();
  } catch (error) {
    if (mine === number) refuse(error);
  } finally {
    clearTimeout(late);
    if (mine === number) document.body.removeAttribute("aria-busy");
  }
}

function announceTable() {
  const answer = shown.view, rows = answer.row_heads.length, columns = answer.col_heads.length;
  document.title = `${shown.title} – ${release}`;
  say(`${shown.title}: ${rows === 1 ? t("1 row") : t("{n} rows", { n: spelled(rows) })}, ${columns === 1 ? t("1 column") : t("{n} columns", { n: spelled(columns) })}.`, false);
}

function drawAll() {
  byId("bar").hidden = false;
  const [only] = state.rows, isBanded = state.rows.length === 1 && only in state.bands && !state.groups[only]?.length;
  shown.view = inWords(ordered(isBanded ? folded(shown.answer) : shown.answer, state.sort));
  drawTable(shown.view, shown.title, { intervals: byId("intervals").checked, differs: byId("differs").value, sort, all: shown.isLong, whenAll: () => { shown.isLong = true; drawAll(); } });
  drawWords(shown.view, shown.plan);
  drawChart(shown.view, shown.title);
  drawTables();
  saved?.drawSaved(shown);
  compare();
}

// The comparison, if the address names one; its module is loaded only then.
function compare() {
  const other = comparison();
  byId("compare").hidden = !other;
  byId("compare").replaceChildren();
  if (other) import("./compare.js").then((m) => shown && m.drawCompare(shown.view, shown.title, other, () => { keepAddress(); drawAll(); byId("result").focus(); }));
}

function sort(at) {
  state.sort = turned(state.sort, at);
  keepAddress();
  drawAll();
  byId("sort-" + at).focus();
  say(!state.sort ? t("Original order restored.") : state.sort.way === "down" ? t("Sorted, largest first.") : t("Sorted, smallest first."), false);
}

// Show why there is no table, and the nearest ones that exist.
function refuse(error) {
  const near = error.nearest || error.said?.nearest || [], spec = error.spec || "";
  shown = null;
  say("");
  document.title = `${t("No table")} – ${release}`;
  saved?.drawSaved(null);
  for (const id of ["compare", "bar", "table", "sideways", "chart", "card-box", "sql-box"]) byId(id).hidden = true;
  for (const id of ["words", "legend", "more"]) byId(id).replaceChildren();
  const together = error.columns?.length > 1 && spec, request = requestForm(together && error.columns);
  byId("problem").replaceChildren(make("div", { class: "why" },
    make("p", { lang: together || !error.status ? null : "en" }, together ? t("No released table combines {variables}. Remove one of them.", { variables: listed(error.columns.map(label)) }) : error.message),
    near.length ? make("p", {}, t("Nearest tables:") + " ", ...near.flatMap((t, i) => [i ? "; " : "", tableLink(t)])) : null,
    spec ? make("details", {}, make("summary", {}, t("For data custodians")), make("p", {}, t("Add this to the spec and rebuild:")), make("pre", { tabindex: 0, "aria-label": t("Entry for the spec"), role: "region" }, spec)) : null,
    request));
  byId("token-box").hidden = error.status !== 401;
  drawTables();
}

// A form to request this combination, if the server accepts requests.
function requestForm(columns) {
  if (!takesRequests || !columns) return null;
  const place = make("div");
  import("./request.js").then((m) => place.replaceChildren(m.form(columns, say)));
  return place;
}

async function download(form) {
  try {
    const shape = form === "xlsx" ? [state.sort && `sort=${state.sort.way}.${state.sort.at}`, `intervals=${byId("intervals").checked}`] : [];
    const got = await ask("api/tabulate", [link(), "format=" + form, ...shape].filter(Boolean).join("&"));
    const ending = { "json-stat": "json" }[form] || form;
    save(await got.blob(), `${[...state.rows, ...state.cols].join("-") || "total"}.${ending}`);
    say(t("Downloaded."));
  } catch (error) {
    say(t("Download failed: {why}", { why: error.message }));
  }
}

async function copy(text, word) {
  try {
    await navigator.clipboard.writeText(text);
    say(t("{what} copied.", { what: word }));
  } catch {
    say(text.length < 300 ? t("Please copy manually: {text}", { text }) : t("The browser does not allow copying here. Download the table, or open the SQL below."));
  }
}

async function begin() {
  let about;
  try {
    about = await askJson("api/variables");
  } catch (error) {
    byId("title").textContent = t("Table builder");
    refuse(error);
    return;
  }
  release = about.title || t("Release");
  byId("token-box").hidden = true;
  byId("title").textContent = about.title || t("Table builder");
  byId("about").textContent = about.about.join(" ");
  byId("lead").textContent = t("Synthetic data: figures include noise, shown beside them, unless declared public. Select variables to build a table.");
  byId("notes").replaceChildren(...about.notes.map((n) => make("li", {}, n)));
  byId("foot").textContent = t("Vintage: {vintage}; released tables: {tables}; content hash: {hash}; {signature}. API: /api/openapi.json.", { vintage: about.vintage, tables: spelled(about.n_tables), hash: about.content_hash, signature: t(about.signature) });
  takesRequests = about.takes_requests;
  Object.assign(unit, unitWords(about.unit));
  byId("measure").options[0].textContent = t("Number of {units}", { units: unit.many });
  setVariables(about.variables);
  const open = async () => {
    if (saved) return;
    saved = await import("./saved.js");
    saved.startSaved(about, { say, copy, changed: () => { keepAddress(); drawAll(); } });
    saved.drawSaved(shown);
  };
  byId("saved-box").addEventListener("toggle", open);
  if (location.hash.startsWith("#saved=")) open();
  choose.start(changed, say, takesRequests);
  byId("ask-box").addEventListener("toggle", () => import("./sql.js").then((m) => m.start(about.logical_name, say)), { once: true });
  arrive();
}

// Show the table that the address describes.
async function arrive() {
  readLink();
  await Promise.all(Object.keys(state.only).map(find).filter(Boolean).map(loadValues)).catch(() => {}); // the title shows their labels
  choose.draw();
  refresh({ keep: true });
}

function goTo(query) {
  history.pushState(null, "", place(query));
  arrive();
  byId("result").focus();
}

function listen() {
  choose.listen();
  listenTables(goTo);
  listenStart(goTo);
  listenChart(() => { keepAddress(); drawChart(shown.view, shown.title); }, say);
  byId("token-box").addEventListener("submit", (e) => { e.preventDefault(); useToken(byId("token").value); begin(); });
  byId("bar").addEventListener("click", (e) => { if (e.target.dataset.form) download(e.target.dataset.form); });
  byId("copy-link").addEventListener("click", () => copy(location.href, t("Link")));
  byId("copy-sql").addEventListener("click", () => copy(shown ? shown.plan.sql : "", "SQL"));
  byId("copy-table").addEventListener("click", () => copy(shown ? asText(shown.view) : "", t("Table")));
  for (const id of ["intervals", "differs"]) byId(id).addEventListener("change", () => shown && drawAll());
  window.addEventListener("popstate", arrive);
  window.addEventListener("resize", () => { if (shown) { drawChart(shown.view, shown.title); hintSideways(); } });
}

listen();
begin();
