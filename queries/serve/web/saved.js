// Tables saved in this browser as links; the whole list can be shared as a link, and each can be compared.

import { PLACE, address, byId, make, place, state } from "./state.js";
import { t } from "./words.js";

const KEY = "tablepack.saved", MOST = 100;
let shown = null, release = "", siblings = [], act = {};

// Saved tables: [{title, release, place, query}]; malformed entries are dropped.
export function kept() {
  try {
    return read(JSON.parse(localStorage.getItem(KEY) || "[]"));
  } catch {
    return []; // no storage available, or not our data
  }
}

const read = (given) => (Array.isArray(given) ? given : []).filter((s) => s && ["title", "release", "place", "query"].every((k) => typeof s[k] === "string" && s[k].length < 9000) && PLACE.test(s.place)).slice(0, MOST);

function keep(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list.slice(0, MOST)));
  } catch {
    act.say(t("The browser does not store data for this page; copy the link instead."));
  }
  draw();
}

const isSame = (a, b) => a.place === b.place && a.query === b.query;
const join = (list, more) => [...list.filter((s) => !more.some((m) => isSame(s, m))), ...more];
const now = () => ({ title: shown.title, release, place: location.pathname, query: address(false) });

// Called once: imports a list from the address.
export function startSaved(about, acts) {
  [release, siblings, act] = [about.title, about.siblings || [], acts];
  if (!location.hash.startsWith("#saved=")) return;
  try {
    keep(join(kept(), read(JSON.parse(decodeURIComponent(location.hash.slice(7))))));
    byId("saved-box").open = true;
  } catch {
    act.say(t("The list in this link cannot be read."));
  }
  history.replaceState(null, "", location.pathname + location.search);
}

export function drawSaved(whatIsShown) {
  shown = whatIsShown;
  draw();
}

function draw() {
  const list = kept(), others = siblings.filter((s) => s.place !== location.pathname);
  const whole = () => `${location.origin}${location.pathname}#saved=${encodeURIComponent(JSON.stringify(kept()))}`;
  byId("saved").replaceChildren(
    make("p", { class: "bar" },
      shown ? make("button", { type: "button", id: "save", onclick: () => { keep(join(kept(), [now()])); act.say(t("Saved in this browser.")); byId("save").focus(); } }, t("Save this table")) : null,
      list.length ? make("button", { type: "button", onclick: () => act.copy(whole(), t("Link to all saved tables")) }, t("Copy link to all")) : null),
    ...(shown && others.length ? [make("p", { class: "bar" }, make("span", { class: "note" }, t("The same table in:")), ...others.map((s) => make("button", { type: "button", onclick: () => compare(s.place, address(false)) }, t("Compare with {title}", { title: s.title }))))] : []),
    make("ul", {}, ...list.map((s, i) => make("li", {}, make("a", { href: place(s.query, s.place) }, s.title), s.release === release ? null : make("small", {}, " " + s.release), " ",
      shown && !isSame(s, now()) ? make("button", { type: "button", class: "plain", "aria-label": t("Compare with {title}", { title: s.title }), onclick: () => compare(s.place, s.query) }, t("Compare")) : null,
      make("button", { type: "button", class: "plain", "aria-label": t("Delete {title}", { title: s.title }), onclick: () => { keep(kept().filter((_, j) => j !== i)); byId("save")?.focus(); } }, t("Delete"))))));
}

function compare(place, query) {
  state.compare = `${place}?${query}`;
  act.changed();
}
