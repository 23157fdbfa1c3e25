// Shared by all charts: SVG elements, axes with round numbers, shortened labels.

const SPACE = "http://www.w3.org/2000/svg";
export const LETTER = 7; // approximate width of a character in pixels

// Width of a text, rather too much than too little: capitals are wider.
export const wide = (text) => LETTER * (text.length + 0.7 * (text.match(/\p{Lu}/gu) ?? []).length);

export function draw(tag, attributes, text) {
  const out = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  if (text !== undefined) out.textContent = text;
  return out;
}

export const frame = (width, height, label) => draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });

// Add a tooltip.
export function titled(element, text) {
  element.append(draw("title", {}, text));
  return element;
}

// Ends of an axis and the round numbers on it.
export function scale(least, most, wanted = 4) {
  const end = most > least ? most : least + 1, raw = (end - least) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let i = Math.ceil(least / step - 0.001); i * step < end + step * 0.001; i++) ticks.push(i * step + 0); // no -0
  return [least, Math.max(end, ticks[ticks.length - 1]), ticks];
}

// Lowest and highest value of some cells, including their noise intervals and zero.
export function ends(cells, places = cells.value.map((_, i) => i)) {
  const known = places.filter((i) => cells.value[i] !== null);
  return [Math.min(0, ...known.map((i) => Math.min(cells.low[i] ?? 0, cells.value[i]))), Math.max(0, ...known.map((i) => Math.max(cells.high[i] ?? 0, cells.value[i])))];
}

export const cut = (text, n) => (text.length > n ? text.slice(0, Math.max(1, Math.floor(n) - 1)) + "…" : text);

// A standalone copy for download: styles are inlined, as the file has no style sheet.
export function alone(svg, title) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "font-size", "font-family", "font-weight"]) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number), room = 34, ink = getComputedStyle(document.body);
  copy.setAttribute("xmlns", SPACE);
  copy.setAttribute("viewBox", `0 ${-room} ${width} ${height + room}`);
  copy.setAttribute("height", height + room);
  copy.prepend(draw("rect", { x: 0, y: -room, width, height: height + room, fill: getComputedStyle(svg.closest("figure") ?? document.body).getPropertyValue("--card") || "#ffffff" }),
    draw("text", { x: 6, y: 20 - room, "font-family": ink.fontFamily, "font-size": 14, "font-weight": 600, fill: ink.color }, cut(title, (width - 12) / 8)));
  return copy;
}
