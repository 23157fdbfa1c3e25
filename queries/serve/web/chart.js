// Bars with whiskers for the noise interval, drawn as SVG. The table beside it says the same.

import { formatter } from "./show.js";
import { byId, make } from "./state.js";
import { listed } from "./variables.js";

const SPACE = "http://www.w3.org/2000/svg", MOST_ROWS = 40, MOST_SERIES = 6;

function draw(tag, attributes, text) {
  const out = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  if (text !== undefined) out.textContent = text;
  return out;
}

export function drawChart(answer, title) {
  const box = byId("chart"), isTurned = !answer.rows.length && answer.cols.length > 0;
  const rows = isTurned ? answer.col_heads : answer.row_heads, series = isTurned ? [[]] : answer.col_heads;
  const known = answer.cells.value.some((v) => v !== null);
  box.hidden = !(answer.rows.length || answer.cols.length) || !known;
  box.replaceChildren();
  if (box.hidden) return;
  if (rows.length > MOST_ROWS || series.length > MOST_SERIES) {
    box.append(make("p", { class: "note" }, `No chart: it would have ${rows.length} groups of ${series.length} bars (at most ${MOST_ROWS} of ${MOST_SERIES}). Wider bands, own groups or a filter help.`));
    return;
  }
  box.append(caption(answer, series, title), bars(answer, rows, series, title, box.clientWidth - 28));
}

function caption(answer, series, title) {
  const keys = series.length < 2 ? null : make("ul", { class: "keys" },
    make("li", { class: "note" }, listed(answer.cols.map((c) => c.label)) + ":"),
    ...series.map((words, i) => make("li", {}, make("span", { class: "key k" + i }), words.join(", "))));
  const marks = answer.cells.value.some((v) => v === null) ? " × stands for what is not released or impossible." : "";
  return make("figcaption", {}, make("b", {}, title), keys, make("span", {}, "The thin lines are the noise intervals." + marks));
}

function bars(answer, rows, series, title, room) {
  const format = formatter(answer), width = Math.max(room, 240), cells = answer.cells;
  const tall = series.length > 3 ? 9 : series.length > 1 ? 12 : 16, gap = 10;
  const left = Math.min(width * 0.4, 12 + 7 * Math.max(...rows.map((r) => r.join(", ").length)));
  const step = series.length * tall + gap, height = rows.length * step + 30;
  const highs = cells.high.map((h, i) => Math.max(h ?? 0, cells.value[i] ?? 0));
  const lows = cells.low.map((l, i) => Math.min(l ?? 0, cells.value[i] ?? 0));
  const [least, most, ticks] = scale(Math.min(0, ...lows), Math.max(0, ...highs));
  const x = (v) => left + ((v - least) / (most - least)) * (width - left - 26);
  const out = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Bar chart: ${title}. The table above has the same figures.` });
  ticks.forEach((t) => {
    out.append(draw("line", { class: "grid", x1: x(t), x2: x(t), y1: 0, y2: height - 24 }));
    out.append(draw("text", { class: "tick", x: x(t), y: height - 8, "text-anchor": "middle" }, format(t)));
  });
  rows.forEach((keys, r) => {
    const top = r * step + gap / 2;
    out.append(draw("text", { x: left - 8, y: top + (series.length * tall) / 2 + 4, "text-anchor": "end" }, cut(keys.join(", "), (left - 12) / 7)));
    series.forEach((_, s) => {
      const i = r * series.length + s, y = top + s * tall, value = cells.value[i];
      if (value === null) {
        const mark = draw("text", { class: "tick", x: x(0) + 4, y: y + tall / 2 + 4 }, "×");
        mark.append(draw("title", {}, `${keys.join(", ")}: ${cells.status[i] === "structural zero" ? "impossible" : "not released"}`));
        return out.append(mark);
      }
      const bar = draw("rect", { class: "bar k" + s, x: Math.min(x(0), x(value)), y: y + 1, width: Math.abs(x(value) - x(0)), height: tall - 2 });
      bar.append(draw("title", {}, `${keys.join(", ")}: ${format(value)}`));
      out.append(bar);
      if (cells.low[i] === null || cells.high[i] === null) return undefined;
      const middle = y + tall / 2, from = x(cells.low[i]), to = x(cells.high[i]);
      return out.append(draw("path", { class: "whisker", d: `M${from} ${middle}H${to}M${from} ${middle - 3}v6M${to} ${middle - 3}v6` }));
    });
  });
  return out;
}

// Both ends of the axis, zero if it lies between, and round numbers on it.
function scale(least, most) {
  const end = most > least ? most : least + 1, raw = (end - least) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let i = Math.ceil(least / step - 0.001); i * step < end + step * 0.001; i++) ticks.push(i * step + 0); // no -0
  return [least, Math.max(end, ticks[ticks.length - 1]), ticks];
}

const cut = (text, n) => (text.length > n ? text.slice(0, Math.max(1, Math.floor(n) - 1)) + "…" : text);
