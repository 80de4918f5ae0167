const pluralize = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// Tables sort by the value of a cell, not its text; cells without a value come last in both directions.
function value(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.v === undefined) return null;
  const number = Number(cell.dataset.v);
  return Number.isNaN(number) ? cell.dataset.v : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortBy(table, head, column) {
  const ascending = head.getAttribute("aria-sort") === "none" ? !head.classList.contains("n") : head.getAttribute("aria-sort") === "descending";
  for (const other of head.parentNode.cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
  rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : ascending ? compare(a, b) : compare(b, a)));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

function filterable(dataTable, table) {
  const rows = [...table.tBodies[0].rows];
  const selects = [...dataTable.querySelectorAll("select")];
  const search = dataTable.querySelector("input");
  const count = dataTable.querySelector(".count");
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = selects.every((select) => !select.value || row.cells[select.dataset.column].textContent === select.value) && words.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown === rows.length ? pluralize(rows.length, "row") : `${shown} of ${pluralize(rows.length, "row")}`;
  };
  for (const select of selects) select.addEventListener("change", apply);
  search.addEventListener("input", apply);
  apply();
}

for (const dataTable of document.querySelectorAll(".data-table")) {
  const tables = dataTable.querySelectorAll("table");
  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.firstElementChild.addEventListener("click", () => sortBy(table, head, column));
    });
  }
  if (tables.length && dataTable.querySelector(".filters")) filterable(dataTable, tables[0]);
}
