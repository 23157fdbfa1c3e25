// Line charts with the noise interval as a band around each line; and small multiples, one chart per series.

import { LETTER, cut, draw, ends, frame, scale, titled } from "./svg.js";

// One line per series over the rows.
export function lines(picture) {
  const { cells, rows, series, format, width } = picture, height = picture.isSmall ? 190 : Math.min(380, 220 + width / 6), bottom = height - 30, n = series.length;
  const [least, most, ticks] = scale(...(picture.range ?? ends(cells)), picture.isSmall ? 3 : 5), left = 14 + LETTER * Math.max(...ticks.map((v) => format(v).length));
  const x = (r) => left + 6 + (rows.length > 1 ? r / (rows.length - 1) : 0.5) * (width - left - 30), y = (v) => 10 + (1 - (v - least) / (most - least)) * (bottom - 10);
  const out = frame(width, height, picture.label);
  ticks.forEach((v) => out.append(draw("line", { class: "grid", x1: left, x2: width - 12, y1: y(v), y2: y(v) }), draw("text", { class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end" }, format(v))));
  const longest = Math.max(...rows.map((r) => r.join(", ").length)), every = Math.max(1, Math.ceil(((longest + 2) * LETTER * rows.length) / (width - left - 30)));
  rows.forEach((keys, r) => {
    const half = (keys.join(", ").length * LETTER) / 2;
    if (r % every === 0 && x(r) + half < width) out.append(draw("text", { class: "tick", x: Math.max(x(r), half), y: height - 10, "text-anchor": "middle" }, keys.join(", ")));
  });
  series.forEach((keys, s) => {
    const colour = "k" + ((picture.first || 0) + s), place = (r) => r * n + s;
    for (const run of runs(rows, (r) => cells.value[place(r)] !== null)) {
      const sure = run.filter((r) => cells.low[place(r)] !== null && cells.high[place(r)] !== null);
      const upper = sure.map((r) => `${x(r)},${y(cells.high[place(r)])}`), lower = sure.map((r) => `${x(r)},${y(cells.low[place(r)])}`).reverse();
      if (sure.length > 1) out.append(draw("polygon", { class: "band " + colour, points: [...upper, ...lower].join(" ") }));
      out.append(draw("polyline", { class: "line " + colour, points: run.map((r) => `${x(r)},${y(cells.value[place(r)])}`).join(" ") }));
      run.forEach((r) => out.append(titled(draw("circle", { class: "dot " + colour, cx: x(r), cy: y(cells.value[place(r)]), r: rows.length > 60 ? 1.5 : 3 }), `${[...rows[r], ...keys].join(", ")}: ${format(cells.value[place(r)])}`)));
    }
  });
  return out;
}

// Runs of neighbouring rows that have a figure.
function runs(rows, isKnown) {
  const out = [];
  rows.forEach((_, r) => {
    if (!isKnown(r)) return;
    const last = out[out.length - 1];
    if (last && last[last.length - 1] === r - 1) last.push(r);
    else out.push([r]);
  });
  return out;
}

// One chart per series, all on the same scale.
export function multiples(picture, one) {
  const { cells, rows, series, width } = picture, each = Math.max(1, Math.min(series.length, Math.floor(width / 250))), wide = Math.floor(width / each), head = 22;
  const [least, most] = ends(cells), panels = series.map((keys, s) => {
    const places = rows.map((_, r) => r * series.length + s), own = Object.fromEntries(Object.entries(cells).map(([name, list]) => [name, places.map((i) => list[i])]));
    return [keys.join(", "), one({ ...picture, cells: own, series: [[]], width: wide - 12, isSmall: true, range: [least, most] })];
  });
  const tall = Math.max(...panels.map(([, svg]) => Number(svg.getAttribute("height")))) + head + 8;
  const out = frame(width, Math.ceil(panels.length / each) * tall, picture.label);
  panels.forEach(([words, svg], i) => {
    const x = (i % each) * wide, y = Math.floor(i / each) * tall;
    out.append(draw("text", { class: "head", x: x + 4, y: y + 15 }, cut(words, wide / LETTER)));
    svg.setAttribute("x", x);
    svg.setAttribute("y", y + head);
    svg.removeAttribute("role");
    svg.removeAttribute("aria-label");
    out.append(svg);
  });
  return out;
}
