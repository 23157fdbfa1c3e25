// Ask whoever makes the release for a table that it does not have.

import { make, send } from "./state.js";
import { t } from "./words.js";

// A form for a combination of variables; `say` tells what became of it.
export function form(columns, say) {
  const reason = make("input", { type: "text", id: "reason", maxlength: 1000, required: true });
  const who = make("input", { type: "text", id: "who", maxlength: 200, autocomplete: "name" });
  const box = make("form", { onsubmit: async (e) => {
    e.preventDefault();
    try {
      const left = await send("api/requests", { columns, reason: reason.value, who: who.value });
      const told = t("Request {n} was left.", { n: left.number });
      box.replaceChildren(make("p", {}, told));
      say(told, false);
    } catch (error) {
      say(error.message);
    }
  } },
  make("p", {}, make("label", { for: "reason" }, t("What the table is for")), " ", reason),
  make("p", {}, make("label", { for: "who" }, t("Who asks (may be empty)")), " ", who),
  make("p", {}, make("button", {}, t("Leave the request"))));
  return make("details", {}, make("summary", {}, t("Ask for this table")), box);
}
