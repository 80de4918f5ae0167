"use strict";
(() => {
  const form = document.querySelector("form");
  if (!form) return;
  const keys = [...form.querySelectorAll("kbd")];
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.name === "note") return;
    const key = keys.find((each) => each.textContent.toLowerCase() === event.key.toLowerCase());
    const input = key?.parentElement.querySelector("input");
    if (!input) return;
    input.checked = input.type === "radio" || !input.checked;
    input.focus();
  });
  form.addEventListener("submit", () => { form.querySelector("button").disabled = true; });
  addEventListener("pageshow", () => { form.querySelector("button").disabled = false; });
  history.scrollRestoration = "manual"; // every question has the same address; the page scrolls to the current one
  if (document.querySelectorAll(".message").length < 2) return;
  addEventListener("load", () => { document.getElementById("now").scrollIntoView(); }); // when pictures have their sizes
})();
