// A form to request a table that is not released.

import { make, send } from "./state.js";
import { t } from "./words.js";

// A form for a combination of variables; `say` announces the outcome.
export function form(columns, say) {
  const reason = make("input", { type: "text", id: "reason", maxlength: 1000, required: true });
  const who = make("input", { type: "text", id: "who", maxlength: 200, autocomplete: "name" });
  const box = make("form", { onsubmit: async (e) => {
    e.preventDefault();
    try {
      const left = await send("api/requests", { columns, reason: reason.value, who: who.value });
      const done = t("Request {n} was submitted.", { n: left.number });
      box.replaceChildren(make("p", {}, done));
      say(done, false);
    } catch (error) {
      say(error.message);
    }
  } },
  make("p", {}, make("label", { for: "reason" }, t("Purpose of the table")), " ", reason),
  make("p", {}, make("label", { for: "who" }, t("Your name (optional)")), " ", who),
  make("p", {}, make("button", {}, t("Submit request"))));
  return make("details", {}, make("summary", {}, t("Request this table")), box);
}
