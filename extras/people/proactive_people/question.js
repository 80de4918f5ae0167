"use strict";
(() => {
  const form = document.querySelector("form");
  if (!form) return;
  const choices = [...form.elements.choice];
  const letters = [...form.querySelectorAll("kbd")].map((key) => key.textContent);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const choice = choices[letters.indexOf(event.key.toUpperCase())];
    if (choice) {
      choice.checked = true;
      choice.focus();
    }
  });
  form.addEventListener("submit", () => { form.querySelector("button").disabled = true; });
  addEventListener("pageshow", () => { form.querySelector("button").disabled = false; });
  history.scrollRestoration = "manual"; // every question has the same address; the page scrolls to the current one
  if (document.querySelectorAll(".message").length > 1) document.getElementById("now").scrollIntoView();
})();
