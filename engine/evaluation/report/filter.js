for (const box of document.querySelectorAll(".scroll.long")) {
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Show rows that hold …";
  field.setAttribute("aria-label", "Show rows that hold this text");
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    for (const row of box.querySelectorAll("tbody tr"))
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  box.before(field);
}
