// Which figures differ from the total, the first row or the row above by more than noise: their intervals do not meet.

import { make } from "./state.js";
import { t } from "./words.js";

// The figure that cell i stands against: [side, place]; null where there is none.
function against(answer, way, i) {
  const width = answer.col_heads.length, row = Math.floor(i / width), column = i % width;
  if (way === "first") return row ? [answer.cells, column] : null;
  if (way === "above") return row ? [answer.cells, i - width] : null;
  if (way !== "total" || answer.measure === "ratio") return null;
  if (answer.percent === "row" && answer.col_total) return [answer.col_total, column];
  if (answer.percent === "column" && answer.row_total) return [answer.row_total, row];
  return ["mean", "median", "quantile"].includes(answer.measure) && answer.total ? [answer.total, 0] : null; // a part of a number is always less
}

const ends = (side, i) => (["not released", "structural zero"].includes(side.status[i]) ? [null] : [side.low[i], side.high[i]]);

// Makes the mark of cell i, or nothing.
export function marker(answer, way) {
  return (i) => {
    const other = way ? against(answer, way, i) : null;
    if (!other) return null;
    const [mine, its] = [ends(answer.cells, i), ends(...other)];
    if ([...mine, ...its].some((end) => end === null)) return null;
    const word = mine[0] > its[1] ? "▲ " + t("more") : mine[1] < its[0] ? "▼ " + t("less") : "";
    return word ? make("span", { class: "s d" }, word) : null;
  };
}
