// Starts the page, and asks again whenever the question changes.

import * as choose from "./choose.js";
import { drawChart } from "./chart.js";
import { caption, drawTable, drawWords } from "./show.js";
import { ask, askJson, byId, link, make, readLink, state, useToken } from "./state.js";

let shown = null, number = 0, waiting = 0;
const say = (text) => { byId("live").textContent = text; };

function changed() {
  choose.draw();
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 120);
}

async function refresh({ keep = false } = {}) {
  const mine = ++number, question = link();
  if (!keep) history.pushState(null, "", question ? "?" + question : location.pathname);
  document.body.setAttribute("aria-busy", "true");
  try {
    const plan = await askJson("api/plan", question);
    if (mine !== number) return;
    choose.setOthers(plan.others);
    if (!plan.is_answerable) { refuse({ message: plan.message }); return; }
    const answer = await askJson("api/tabulate", question);
    if (mine !== number) return;
    shown = { answer, plan, title: caption(answer, choose.label, choose.filters()) };
    byId("problem").replaceChildren();
    drawAll();
    say(`${shown.title}: ${answer.row_heads.length} ${answer.row_heads.length === 1 ? "row" : "rows"}, ${answer.col_heads.length} ${answer.col_heads.length === 1 ? "column" : "columns"}.`);
  } catch (error) {
    if (mine === number) refuse(error);
  } finally {
    if (mine === number) document.body.removeAttribute("aria-busy");
  }
}

function drawAll() {
  byId("bar").hidden = false;
  drawTable(shown.answer, shown.title, byId("intervals").checked);
  drawWords(shown.answer, shown.plan);
  drawChart(shown.answer, shown.title);
}

function refuse(error) {
  shown = null;
  say("");
  for (const id of ["bar", "table", "chart", "card-box", "sql-box"]) byId(id).hidden = true;
  for (const id of ["words", "legend", "more"]) byId(id).replaceChildren();
  byId("problem").replaceChildren(make("p", { class: "why" }, error.message));
  byId("token-box").hidden = error.status !== 401;
}

async function download(form) {
  try {
    const question = link(), got = await ask("api/tabulate", question + (question ? "&" : "") + "format=" + form);
    const ending = { "json-stat": "json" }[form] || form;
    const address = URL.createObjectURL(await got.blob());
    const anchor = make("a", { href: address, download: `${[...state.rows, ...state.cols].join("-") || "total"}.${ending}` });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    say("Downloaded.");
  } catch (error) {
    say(`Not downloaded: ${error.message}`);
  }
}

async function copy(text, word) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${word} copied.`);
  } catch {
    say(`Copy it by hand: ${text}`);
  }
}

async function begin() {
  let about;
  try {
    about = await askJson("api/variables");
  } catch (error) {
    byId("title").textContent = "Table builder";
    refuse(error);
    return;
  }
  byId("token-box").hidden = true;
  byId("title").textContent = about.title || "Table builder";
  document.title = `${about.title || "Release"}: table builder`;
  byId("lead").textContent = "No row here is a person: every figure carries noise, and says how much. Pick variables; the table follows.";
  byId("notes").replaceChildren(...about.notes.map((n) => make("li", {}, n)));
  byId("foot").textContent = `Vintage ${about.vintage}, ${about.n_tables} released tables, content hash ${about.content_hash}. Programs: /api/openapi.json.`;
  choose.start(about.variables, changed, say);
  readLink();
  choose.draw();
  refresh({ keep: true });
}

byId("token-box").addEventListener("submit", (e) => { e.preventDefault(); useToken(byId("token").value); begin(); });
byId("bar").addEventListener("click", (e) => { if (e.target.dataset.form) download(e.target.dataset.form); });
byId("copy-link").addEventListener("click", () => copy(location.href, "Link"));
byId("copy-sql").addEventListener("click", () => copy(shown ? shown.plan.sql : "", "SQL"));
byId("intervals").addEventListener("change", () => shown && drawAll());
window.addEventListener("popstate", () => { readLink(); choose.draw(); refresh({ keep: true }); });
window.addEventListener("resize", () => { if (shown) drawChart(shown.answer, shown.title); });
begin();
