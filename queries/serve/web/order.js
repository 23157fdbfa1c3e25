// The rows of an answer in the order the reader wants: as released, or by a figure.

// The answer with its rows by one column's figures; what has no figure stays last.
export function ordered(answer, sort) {
  const width = answer.col_heads.length, at = sort && (sort.at === "all" ? -1 : Number(sort.at));
  const side = sort && at < 0 ? answer.row_total : answer.cells;
  if (!sort || !side || at >= width || answer.row_heads.length < 2) return { ...answer, sorted: null };
  const figure = (r) => side.value[at < 0 ? r : r * width + at];
  const sign = sort.way === "up" ? 1 : -1, rows = answer.row_heads.map((_, r) => r);
  rows.sort((a, b) => {
    const x = figure(a), y = figure(b);
    return x === null || y === null ? (x === null) - (y === null) : sign * (x - y) || a - b;
  });
  return { ...picked(answer, rows, rows.map((r) => answer.row_heads[r])), sorted: sort };
}

const taken = (side, places) => Object.fromEntries(Object.entries(side).map(([name, list]) => [name, places.map((i) => list[i])]));

// Runs of bands at both ends of which nothing is released, as one row each: the fill spreads wide there.
export function folded(answer) {
  const width = answer.col_heads.length, n = answer.row_heads.length;
  if (answer.rows.length !== 1 || !width) return answer;
  const isShut = (r) => answer.cells.status.slice(r * width, (r + 1) * width).every((s) => s === "not released") && (!answer.row_total || answer.row_total.status[r] === "not released");
  const isBand = (r) => answer.row_heads[r][0].includes(" to ");
  let first = 0, last = n;
  while (first < n && isShut(first) && isBand(first)) first++;
  while (last > first && isShut(last - 1) && isBand(last - 1)) last--;
  const from = Math.max(first - 1, 0), until = Math.min(last + 1, n), rows = Array.from({ length: until - from }, (_, i) => from + i);
  if (rows.length === n || first === n) return answer;
  const end = (r, side) => answer.row_heads[r][0].split(" to ")[side];
  const heads = rows.map((r) => answer.row_heads[r]);
  if (first > 1) heads[0] = [`${end(0, 0)} to ${end(first - 1, 1)}`];
  if (n - last > 1) heads[heads.length - 1] = [`${end(last, 0)} to ${end(n - 1, 1)}`];
  return picked(answer, rows, heads);
}

const picked = (answer, rows, heads) => ({
  ...answer, row_heads: heads, row_total: answer.row_total && taken(answer.row_total, rows),
  cells: taken(answer.cells, rows.flatMap((r) => answer.col_heads.map((_, c) => r * answer.col_heads.length + c))),
});

// Largest first, then smallest first, then as released.
export function turned(sort, at) {
  if (!sort || sort.at !== at) return { way: "down", at };
  return sort.way === "down" ? { way: "up", at } : null;
}
