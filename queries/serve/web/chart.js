// Charts: which kinds suit a table, drawing the selected one, and downloading it.

import { bars, pyramid, stacked } from "./bars.js";
import { lines, multiples } from "./lines.js";
import { formatter } from "./show.js";
import { byId, make, state } from "./state.js";
import { alone } from "./svg.js";
import { find, isDated, listed } from "./variables.js";
import { t } from "./words.js";

const MOST_ROWS = 40, MOST_POINTS = 400, MOST_SERIES = 6, MOST_PARTS = 9, MOST_PANELS = 12;
const KINDS = { bars: t("Bars"), lines: t("Lines"), pyramid: t("Pyramid"), stacked: t("Stacked shares"), map: t("Map"), multiples: t("Small multiples") };
let again = () => {}, say = () => {};

// The data a chart needs. A table without rows is transposed.
function picture(answer, title, width) {
  const isTurned = !answer.rows.length && answer.cols.length > 0;
  const rows = isTurned ? answer.col_heads : answer.row_heads, series = isTurned ? [[]] : answer.col_heads;
  return { rows, series, cells: answer.cells, width: Math.max(width, 240), format: formatter(answer), over: isTurned ? answer.cols : answer.rows,
    isShare: answer.measure === "share" || answer.measure === "count", label: t("Chart: {title}. The table has the same figures.", { title }) };
}

// Whether the rows are single values with areas on a map: neither bands nor custom groups.
const hasAreas = (name) => Boolean(find(name)?.has_map) && !state.bands[name] && !state.groups[name]?.length;

const isOver = (given) => given.over.length === 1 && Boolean(find(given.over[0].name)?.is_ordered) && given.rows.length > 2;

// The same without the blank row, which has no place in the order.
function withoutBlank(given) {
  const blank = find(given.over[0].name)?.blank, kept = given.rows.map((_, r) => r).filter((r) => given.rows[r][0] !== blank), n = given.series.length;
  if (kept.length === given.rows.length) return given;
  const places = kept.flatMap((r) => given.series.map((_, s) => r * n + s));
  return { ...given, rows: kept.map((r) => given.rows[r]), cells: Object.fromEntries(Object.entries(given.cells).map(([name, list]) => [name, places.map((i) => list[i])])) };
}

// Suitable kinds, the best first.
export function kinds(answer, given) {
  const rows = given.rows.length, n = given.series.length, ordered = isOver(given) && !answer.sorted, out = [];
  const isTime = ordered && isDated(find(given.over[0].name)), isPart = given.isShare && answer.percent !== "column" && n > 1 && n <= MOST_PARTS && rows <= MOST_ROWS;
  const isPyramid = ordered && n === 2 && given.isShare && rows <= 110 && !isTime && answer.percent !== "row";
  if (given.over.length === 1 && hasAreas(given.over[0].name) && n <= MOST_SERIES) out.push("map");
  if (isTime && n <= MOST_SERIES && rows <= MOST_POINTS) out.push("lines");
  if (isPyramid && rows > 5) out.push("pyramid");
  if (isPart && answer.percent === "row") out.push("stacked");
  if (rows <= MOST_ROWS && n <= MOST_SERIES) out.push("bars");
  if (ordered && !isTime && n <= MOST_SERIES && rows <= MOST_POINTS) out.push("lines");
  if (isPart && !out.includes("stacked")) out.push("stacked");
  if (n > 1 && n <= MOST_PANELS && (rows <= MOST_ROWS || ordered)) out.push("multiples");
  return out;
}

export function paint(kind, given) {
  const one = isOver(given) && given.rows.length > 5 ? (g) => lines(g) : bars;
  if (kind === "lines") return lines(withoutBlank(given));
  if (kind === "multiples") return multiples(one === bars ? given : withoutBlank(given), one);
  return { bars, pyramid, stacked }[kind](given);
}

// A small chart for the start page; null if no kind suits.
export function small(answer, title, width) {
  const given = { ...picture(answer, title, width), isSmall: true }, [kind] = kinds(answer, given).filter((k) => k !== "map");
  return kind ? paint(kind, given) : null;
}

export function legend(answer) {
  return answer.rows.length && answer.col_heads.length > 1 ? make("ul", { class: "keys" }, ...answer.col_heads.map((words, i) => make("li", {}, make("span", { class: "key k" + i }), words.join(", ")))) : null;
}

export function drawChart(answer, title) {
  const box = byId("chart"), focused = document.activeElement?.id, known = answer.cells.value.some((v) => v !== null);
  box.hidden = !(answer.rows.length || answer.cols.length) || !known;
  box.replaceChildren();
  if (box.hidden) return;
  const given = picture(answer, title, box.clientWidth - 28), suited = kinds(answer, given), kind = suited.includes(state.chart) ? state.chart : suited[0];
  if (!kind) {
    box.append(make("p", { class: "note" }, t("No chart: the table has {rows} rows and {series} columns; a chart can show at most {most} and {many}. Use wider bands, custom groups or a filter.", { rows: given.rows.length, series: given.series.length, most: MOST_ROWS, many: MOST_SERIES })));
    return;
  }
  const svg = kind === "map" ? laterMap(given) : paint(kind, given);
  box.append(tools(suited, kind, () => box.querySelector("svg"), title), caption(answer, kind, title), svg);
  if (focused === "chart-kind") byId("chart-kind").focus();
}

export function listenChart(whenChanged, whenSaid) {
  [again, say] = [whenChanged, whenSaid];
}

// A placeholder until the map and its outlines are loaded.
function laterMap(given) {
  const place = make("p", { class: "note" }, t("Loading the map …"));
  import("./map.js").then((m) => m.map(given)).then((svg) => place.replaceWith(svg), (error) => { place.textContent = error.message; });
  return place;
}

function tools(suited, kind, svg, title) {
  const pick = make("select", { id: "chart-kind", onchange: (e) => { state.chart = e.target.value === suited[0] ? "" : e.target.value; again(); } }, ...suited.map((k) => make("option", { value: k }, KINDS[k])));
  pick.value = kind;
  return make("div", { class: "bar" },
    suited.length > 1 ? make("span", {}, make("label", { for: "chart-kind" }, t("Chart")), " ", pick) : null,
    make("span", { class: "group", role: "group", "aria-label": t("Download the chart") },
      make("button", { type: "button", onclick: () => asFile(svg(), title, "svg") }, "SVG"), make("button", { type: "button", onclick: () => asFile(svg(), title, "png") }, "PNG")));
}

function caption(answer, kind, title) {
  const keys = ["multiples", "pyramid", "map"].includes(kind) ? null : legend(answer), by = listed(answer.cols.map((c) => c.label));
  keys?.prepend(make("li", { class: "note" }, by + ":"));
  const sure = { stacked: t("Each bar is 100\u00A0% of the released figures; the noise intervals are in the table."), lines: t("Shaded bands show the noise intervals."), map: t("A stronger colour means a higher figure. Point at an area to see its figure and noise interval.") }[kind] ?? t("Thin lines show the noise intervals.");
  const isSure = answer.cells.low.some((v, i) => v !== null && answer.cells.status[i] !== "structural zero"), shown = isSure || kind === "stacked" || kind === "map" ? sure : "";
  const marks = !["stacked", "lines", "map"].includes(kind) && answer.cells.value.some((v) => v === null) ? " " + t("× marks figures that are not released or impossible.") : "";
  return make("figcaption", {}, make("b", {}, title), keys, make("span", {}, shown + marks));
}

// Download the chart as a file.
async function asFile(svg, title, form) {
  const whole = alone(svg, title), text = new XMLSerializer().serializeToString(whole), name = [...state.rows, ...state.cols].join("-") || "chart";
  try {
    save(form === "svg" ? new Blob([text], { type: "image/svg+xml" }) : await pixels(text, whole), `${name}.${form}`);
    say(t("Downloaded."));
  } catch (error) {
    say(t("Download failed: {why}", { why: error.message }));
  }
}

export function save(blob, name) {
  const where = URL.createObjectURL(blob), anchor = make("a", { href: where, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(where), 60000);
}

// Twice the screen resolution, for print.
async function pixels(text, svg) {
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  await image.decode();
  [canvas.width, canvas.height] = [2 * Number(svg.getAttribute("width")), 2 * Number(svg.getAttribute("height"))];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) => { canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error(t("the browser cannot draw this image")))), "image/png"); });
}
