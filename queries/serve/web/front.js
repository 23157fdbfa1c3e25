// The front page: the releases on this server, with a short description of each.

import { askJson, byId, make, place, useToken } from "./state.js";
import { number, t } from "./words.js";

const NAMED = 12;

function card(release) {
  const rest = release.variables.length - NAMED, names = release.variables.slice(0, NAMED).join(", ") + (rest > 0 ? ` ${t("and {n} more", { n: rest })}` : "");
  return make("li", { class: "card flat" }, make("a", { href: place("", release.place) }, release.title),
    make("p", { class: "note" }, t("Vintage: {vintage}; tables: {tables}; {signature}", { vintage: release.vintage, tables: number(release.n_tables), signature: t(release.signature) })), make("p", {}, names));
}

async function begin() {
  byId("problem").replaceChildren();
  try {
    const { releases } = await askJson("api/releases");
    byId("token-box").hidden = true;
    byId("pictures").replaceChildren(...releases.map(card));
  } catch (error) {
    byId("problem").replaceChildren(make("p", { class: "why" }, error.message));
    byId("token-box").hidden = error.status !== 401;
  }
}

byId("token-box").addEventListener("submit", (e) => { e.preventDefault(); useToken(byId("token").value); begin(); });
begin();
