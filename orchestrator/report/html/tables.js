// Tables sort by the value of a cell, not its text; cells without a value come last in both directions.
function value(row, column) {
  const text = row.cells[column].dataset.v;
  const number = Number(text);
  return text === undefined ? null : Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortBy(table, head, column) {
  const before = head.getAttribute("aria-sort");
  const ascending = before === "none" ? !head.classList.contains("n") : before === "descending";
  for (const other of head.parentNode.cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
  const missing = (a, b) => (a === null) - (b === null);
  rows.sort(([a], [b]) => (a === null || b === null ? missing(a, b) : ascending ? compare(a, b) : compare(b, a)));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll(".data-table table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => sortBy(table, head, column));
  });
}
