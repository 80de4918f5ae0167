"use strict";
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.name === "note") return;
  const key = [...document.querySelectorAll("kbd")].find((each) => each.textContent === event.key);
  const input = key?.parentElement.querySelector("input");
  if (!input) return;
  input.checked = input.type === "radio" || !input.checked;
  input.focus();
});
