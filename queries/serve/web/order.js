// The order of the rows: as released, or by one column's figures.

// The answer with its rows sorted by one column; rows without a figure stay last.
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

// Merges the unreleased bands at each end into one row: imputed rows spread far out there.
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

// The next order when a column head is pressed: largest first, smallest first, as released.
export function turned(sort, at) {
  if (!sort || sort.at !== at) return { way: "down", at };
  return sort.way === "down" ? { way: "up", at } : null;
}
