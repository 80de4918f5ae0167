// The list: its filters and its order are in the address; the server or the bundle holds the episodes.
const filters = byId("filters");
const FIELDS = ["run", "model", "scenario", "condition", "kind", "text", "protocol", "outcome", "action", "flag", "differs", "sample"];
const state = { sort: "" };
let page = { rows: [], start: 0, matches: 0, total: 0, version: -1, counts: {} };
let latest = 0;

/** Return the parameters of the list, without empty ones. */
function parameters(more = {}) {
  const all = { ...Object.fromEntries(FIELDS.map((name) => [name, state[name] || ""])), sort: state.sort, ...more };
  return new URLSearchParams(Object.entries(all).filter(([, value]) => value !== "" && value !== undefined && value !== null));
}

/** Return the address of a state: `#model=..&episode=KEY`. */
function fragmentOf(values) {
  const names = [...FIELDS, "sort", "episode", "episode_run", "beside", "beside_run"];
  return "#" + names.filter((name) => values[name]).map((name) => `${name}=${address(values[name])}`).join("&");
}

function readAddress() {
  const parts = fragment();
  for (const name of [...FIELDS, "sort", "episode", "episode_run", "beside", "beside_run"]) state[name] = parts[name] || "";
}

function option(value, label, selected) {
  const node = make("option", { value }, visible(label));
  node.selected = selected;
  return node;
}

/** Fill the list of a filter with the values that the other filters leave, with their counts. */
function offer(name, counts) {
  const select = filters.elements[name];
  const known = counts.some(([value]) => value === state[name]);
  const rest = known || !state[name] ? counts : [[state[name], 0], ...counts];
  select.replaceChildren(option("", "all", !state[name]), ...rest.map(([value, count]) => option(value, `${value} (${count.toLocaleString("en")})`, value === state[name])));
}

function offerOthers() {
  const group = (label, kind, counts) => {
    const node = make("optgroup", { label });
    node.append(...counts.map(([name]) => option(`${kind}:${name}`, name, state.differs === `${kind}:${name}`)));
    return counts.length > 1 ? node : null;
  };
  const groups = [group("the model", "model", unfiltered.model), group("the run", "run", unfiltered.run)].filter(Boolean);
  filters.elements.differs.replaceChildren(option("", "any", !state.differs), ...groups);
}

let unfiltered = { model: [], run: [] };

function showFilters() {
  for (const name of ["model", "run"]) if (!state.differs && !FIELDS.some((field) => state[field])) unfiltered[name] = page.counts[name];
  for (const [name, counts] of Object.entries(page.counts)) offer(name, counts);
  for (const name of ["run", "protocol"]) byId(`l-${name}`).hidden = page.counts[name].length < 2 && !state[name];
  offerOthers();
  for (const name of ["text", "sample"]) if (document.activeElement !== filters.elements[name]) filters.elements[name].value = state[name] || "";
  if (["protocol", "outcome", "action", "flag", "differs", "sample"].some((name) => state[name])) byId("more").open = true;
  const sorts = content.sorts.flatMap((name) => [[name, name], [`-${name}`, `${name}, largest first`]]);
  byId("sort").replaceChildren(option("", "as stored", !state.sort), ...sorts.map(([value, label]) => option(value, label, value === state.sort)));
}

function dotOf(row) {
  return make("span", { class: `dot ${row.right === 1 ? "correct" : row.right === 0 ? "wrong" : "none"}`, "aria-hidden": "true" });
}

function entry(row) {
  const current = row.id === open.id && row.run === open.run;
  const button = make("button", { type: "button", "aria-current": current ? "true" : null }, dotOf(row),
    visible(`${row.scenario} ${String(row.sample).padStart(4, "0")}, ${row.condition}`),
    make("small", {}, visible(`${row.model} · ${row.kind} · ${pluralize(row.turns, "turn")}${page.counts.run.length > 1 ? ` · ${row.run}` : ""}`)));
  button.addEventListener("click", () => openRow(row));
  return make("li", { "data-id": row.id }, button);
}

function showList() {
  const rows = page.rows.map(entry);
  if (!rows.length) rows.push(make("li", { class: "empty" }, page.total ? "No episode matches all filters." : "No episode is stored yet."));
  byId("list").replaceChildren(...rows);
  const last = page.start + page.rows.length;
  byId("matches").textContent = page.matches === page.total ? pluralize(page.total, "episode") : `${page.matches.toLocaleString("en")} of ${pluralize(page.total, "episode")}`;
  byId("page").textContent = page.matches ? `${(page.start + 1).toLocaleString("en")} to ${last.toLocaleString("en")}` : "";
  byId("page-back").disabled = page.start === 0;
  byId("page-on").disabled = last >= page.matches;
}

function showProgress() {
  const parts = [page.planned > page.total ? `${page.total.toLocaleString("en")} of ${pluralize(page.planned, "planned episode")}` : "", page.reading ? "still reading" : ""];
  byId("progress").textContent = parts.filter(Boolean).join(", ");
}

/** Load a page of the list; an answer that a newer request overtook is dropped. */
async function loadRows(more = {}) {
  const request = ++latest;
  byId("list").classList.add("stale");
  const answer = await ask("rows", parameters(more));
  if (request !== latest || !answer) return null;
  page = answer;
  byId("list").classList.remove("stale");
  showFilters();
  showList();
  showProgress();
  return answer;
}
