// Bar charts with whiskers for the noise interval: grouped, back to back (a pyramid), or stacked to 100 %.

import { LETTER, cut, draw, ends, frame, scale, titled, wide } from "./svg.js";
import { percentage } from "./show.js";
import { locale, t } from "./words.js";

const GAP = 10, fine = (x) => x.toLocaleString(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

// One group of bars per row, one bar per series.
export function bars(picture) {
  const { cells, rows, series, format, width } = picture, n = series.length, small = picture.isSmall;
  const tall = n > 3 ? 9 : n > 1 ? 12 : small ? 11 : 16, gap = small ? 5 : GAP, step = n * tall + gap, height = rows.length * step + 30;
  const left = Math.min(width * 0.42, 12 + Math.max(...rows.map((r) => wide(r.join(", ")))));
  const [least, most, ticks] = scale(...(picture.range ?? ends(cells)), small ? 2 : 4), x = (v) => left + ((v - least) / (most - least)) * (width - left - 26);
  const out = frame(width, height, picture.label);
  ticks.forEach((at) => out.append(draw("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height - 24 }), draw("text", { class: "tick", x: x(at), y: height - 8, "text-anchor": "middle" }, format(at))));
  rows.forEach((keys, r) => {
    const top = r * step + gap / 2, words = keys.join(", ");
    out.append(titled(draw("text", { x: left - 8, y: top + (n * tall) / 2 + 4, "text-anchor": "end" }, cut(words, (left - 12) / LETTER)), words));
    series.forEach((_, s) => bar(out, picture, r, s, { x, y: top + s * tall, tall }));
  });
  return out;
}

// One bar from zero with its interval, or a cross where there is no figure.
function bar(out, picture, r, s, { x, y, tall }) {
  const { cells, rows, series, format } = picture, i = r * series.length + s, value = cells.value[i], words = [...rows[r], ...series[s]].join(", ");
  if (value === null) {
    const why = cells.status[i] === "structural zero" ? t("impossible") : t("not released");
    const isLeft = x(1) < x(0), where = { x: x(0) + (isLeft ? -4 : 4), y: y + tall / 2 + 4, "text-anchor": isLeft ? "end" : "start" };
    out.append(titled(draw("text", { class: "tick", ...where }, "×"), `${words}: ${why}`));
    return;
  }
  const colour = "bar k" + ((picture.first || 0) + s), ending = Math.min(x(0), x(value));
  out.append(titled(draw("rect", { class: colour, x: ending, y: y + 1, width: Math.abs(x(value) - x(0)), height: tall - 2 }), `${words}: ${format(value)}`));
  if (cells.low[i] === null || cells.high[i] === null) return;
  const middle = y + tall / 2, from = x(cells.low[i]), to = x(cells.high[i]);
  out.append(draw("path", { class: "whisker", d: `M${from} ${middle}H${to}M${from} ${middle - 3}v6M${to} ${middle - 3}v6` }));
}

// Two series back to back with the last row on top: a population pyramid.
export function pyramid(picture) {
  const { cells, rows, series, format, width } = picture, tall = picture.isSmall ? 8 : rows.length > 30 ? 10 : 14, head = 20;
  const middle = Math.min(width * 0.26, 16 + LETTER * Math.max(...rows.map((r) => r.join(", ").length))), side = (width - middle - 24) / 2;
  const [, most, ticks] = scale(0, ends(cells)[1], 2), height = head + rows.length * (tall + 2) + 26, length = (v) => (v / most) * side;
  const at = (s, v) => (s ? 12 + side + middle + length(v) : 12 + side - length(v));
  const out = frame(width, height, picture.label);
  series.forEach((keys, s) => {
    out.append(draw("text", { x: at(s, most / 2), y: 13, "text-anchor": "middle" }, cut(keys.join(", "), side / LETTER)));
    ticks.forEach((v) => out.append(draw("line", { class: "grid", x1: at(s, v), x2: at(s, v), y1: head, y2: height - 24 }),
      draw("text", { class: "tick", x: at(s, v), y: height - 8, "text-anchor": "middle" }, format(v))));
  });
  rows.forEach((keys, r) => {
    const y = head + (rows.length - 1 - r) * (tall + 2), every = Math.ceil(13 / (tall + 2));
    if (r % every === 0) out.append(draw("text", { class: "tick", x: 12 + side + middle / 2, y: y + tall / 2 + 4, "text-anchor": "middle" }, cut(keys.join(", "), middle / 6.4)));
    series.forEach((_, s) => bar(out, picture, r, s, { x: (v) => at(s, v), y, tall }));
  });
  return out;
}

// One bar of 100 % per row, divided by series.
export function stacked(picture) {
  const { cells, rows, series, width } = picture, small = picture.isSmall, tall = small ? 12 : 20, step = tall + (small ? 4 : 8), height = rows.length * step + 28;
  const left = Math.min(width * 0.42, 12 + Math.max(...rows.map((r) => wide(r.join(", "))))), room = width - left - 26;
  const out = frame(width, height, picture.label);
  for (const at of [0, 25, 50, 75, 100]) {
    const x = left + (room * at) / 100;
    out.append(draw("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height - 24 }));
    if (!small || at % 50 === 0) out.append(draw("text", { class: "tick", x, y: height - 8, "text-anchor": "middle" }, percentage(at)));
  }
  rows.forEach((keys, r) => {
    const values = series.map((_, s) => Math.max(0, cells.value[r * series.length + s] ?? 0)), sum = values.reduce((a, b) => a + b, 0), y = r * step + 4, words = keys.join(", ");
    out.append(titled(draw("text", { x: left - 8, y: y + tall / 2 + 4, "text-anchor": "end" }, cut(words, (left - 12) / LETTER)), words));
    let x = left;
    values.forEach((value, s) => {
      if (!sum) return;
      const long = (room * value) / sum, share = percentage(fine((100 * value) / sum));
      out.append(titled(draw("rect", { class: "part k" + s, x, y, width: long, height: tall }), `${words}, ${series[s].join(", ")}: ${share}`));
      x += long;
    });
  });
  return out;
}
