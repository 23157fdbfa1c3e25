// Choropleth maps, one per series; areas without a figure are pale with a dashed outline.

import { askJson } from "./state.js";
import { LETTER, cut, draw, ends, frame, titled } from "./svg.js";
import { find, loadValues } from "./variables.js";
import { t } from "./words.js";

const STEPS = 5;
const known = new Map(); // outlines by column

export async function map(picture) {
  const v = find(picture.over[0].name);
  if (!known.has(v.name)) known.set(v.name, await askJson("api/map", new URLSearchParams({ column: v.name })));
  await loadValues(v);
  return maps(picture, known.get(v.name), v);
}

function maps(picture, outlines, v) {
  const { rows, series, cells, format, width } = picture, each = Math.max(1, Math.min(series.length, Math.floor(width / 260))), wide = Math.floor(width / each);
  const room = Math.min(wide - 12, 560), scale = Math.min(room / outlines.width, 460 / outlines.height), tall = outlines.height * scale + 26;
  const values = cells.value.filter((x) => x !== null), low = Math.min(...values), high = Math.max(...values, low + 1e-9);
  const step = (x) => Math.min(STEPS - 1, Math.floor(((x - low) / (high - low)) * STEPS)), shade = (k) => 0.16 + (0.84 * k) / (STEPS - 1);
  const height = Math.ceil(series.length / each) * tall + 40, out = frame(width, height, picture.label);
  const byKey = new Map((v.values || []).map((w) => [w.key, w.label])), row = new Map(rows.map(([text], r) => [text, r]));
  series.forEach((keys, s) => {
    const x = (s % each) * wide, y = Math.floor(s / each) * tall, group = draw("g", { transform: `translate(${x + 4} ${y + 22}) scale(${scale})` });
    if (series.length > 1) out.append(draw("text", { class: "head", x: x + 4, y: y + 14 }, cut(keys.join(", "), wide / LETTER)));
    for (const area of outlines.areas) {
      const words = byKey.get(area.key) ?? area.key, r = row.get(words), i = r === undefined ? -1 : r * series.length + s, value = cells.value[i] ?? null;
      const range = value !== null && cells.low[i] !== null ? ` (${t("{low} to {high}", { low: format(cells.low[i]), high: format(cells.high[i]) })})` : "";
      const said = value !== null ? format(value) + range : cells.status[i] === "structural zero" ? t("impossible") : i < 0 ? t("not in the table") : t("not released");
      const look = value === null ? { class: "area none" } : { class: "area k0", "fill-opacity": shade(step(value)) };
      group.append(titled(draw("path", { d: area.path, "fill-rule": "evenodd", ...look }), `${words}: ${said}`));
    }
    out.append(group);
  });
  for (let k = 0; k < STEPS; k++) {
    const x = 4 + (k * Math.min(width, 560)) / STEPS, from = low + ((high - low) * k) / STEPS;
    out.append(draw("rect", { class: "area k0", "fill-opacity": shade(k), x, y: height - 34, width: 16, height: 12 }), draw("text", { class: "tick", x: x + 21, y: height - 24 }, format(from) + " –"));
  }
  return out;
}
