// The search box: shows the tables that match every word typed. Without this script, all tables are listed.
"use strict";
const box = document.getElementById("q");
const entries = [...document.querySelectorAll("#tables li")].map((li) => [li, `${li.textContent} ${li.dataset.words}`.toLowerCase()]);
const search = () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (const [li, text] of entries) {
    const fits = words.every((word) => text.includes(word));
    li.hidden = !fits;
    n += fits;
  }
  document.getElementById("found").textContent = words.length ? `${n} / ${entries.length}` : "";
  document.getElementById("none").hidden = n > 0;
};
box.addEventListener("input", search);
search();
