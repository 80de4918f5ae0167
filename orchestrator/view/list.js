// The list: its filters and its order are in the address.
const filters = byId("filters");
const FIELDS = [...NAMES, "kind", "outcome", "sample", "text"];
const ADDRESS = [...FIELDS, "episode", "episode_run", "beside", "beside_run"];
const PAGE = 100;
const state = Object.fromEntries(ADDRESS.map((name) => [name, ""]));
let shown = { positions: new Uint32Array(), counts: {} };
let start = 0, latest = 0;

/** Return the address of a state: `#model=..&episode=NAME`; slashes stay readable. */
const fragmentOf = (values) => "#" + ADDRESS.filter((name) => values[name]).map((name) => `${name}=${encodeURIComponent(values[name])}`).join("&").replaceAll("%2F", "/");

function option(value, label, selected) {
  const node = make("option", { value }, visible(label));
  node.selected = selected;
  return node;
}

function showFilters() {
  for (const [name, counts] of Object.entries(shown.counts)) {
    const select = filters.elements[name];
    const all = state[name] && !counts.some(([value]) => value === state[name]) ? [[state[name], 0], ...counts] : counts;
    select.replaceChildren(option("", "all", !state[name]), ...all.map(([value, count]) => option(value, `${value} (${count.toLocaleString("en")})`, value === state[name])));
  }
  for (const name of ["run", "protocol"]) byId(`l-${name}`).hidden = (shown.counts[name]?.length ?? 0) < 2 && !state[name];
  byId("l-text").hidden = !source.found; // a bundle would have to send all replies
  for (const name of ["text", "sample"]) if (document.activeElement !== filters.elements[name]) filters.elements[name].value = state[name];
}

function entry(at) {
  const { run, model, scenario, condition } = cellOf(at);
  const button = make("button", { type: "button", "aria-current": at === open ? "true" : null },
    dot(columns.right[at]), visible(`${scenario} ${String(columns.sample[at]).padStart(4, "0")}, ${condition}`),
    make("small", {}, visible(`${model} · ${about.kinds[columns.kind[at]]} · ${pluralize(columns.turns[at], "turn")}${about.orders.run.length > 1 ? ` · ${run}` : ""}`)));
  button.addEventListener("click", () => openEpisodes([at], true));
  return make("li", { "data-at": at }, button);
}

function showList() {
  const { positions } = shown, rows = [...positions.subarray(start, start + PAGE)].map(entry);
  if (!rows.length) rows.push(make("li", { class: "empty" }, about.total ? "No episode matches all filters." : "No episode is stored yet."));
  byId("list").replaceChildren(...rows);
  const last = Math.min(start + PAGE, positions.length);
  const total = pluralize(about.total, "episode");
  byId("matches").textContent = positions.length === about.total ? total : `${positions.length.toLocaleString("en")} of ${total}`;
  byId("page").textContent = last ? `${(start + 1).toLocaleString("en")} to ${last.toLocaleString("en")}` : "";
  byId("page-back").disabled = start === 0;
  byId("page-next").disabled = last >= positions.length;
  showProgress();
}

function showProgress() {
  const parts = [about.planned > about.total ? `${about.total.toLocaleString("en")} of ${pluralize(about.planned, "planned episode")}` : "", about.reading ? "still reading" : ""];
  byId("progress").textContent = parts.filter(Boolean).join(", ");
}

/** List what the filters leave; return false if a newer request overtook this one. */
async function search() {
  const request = ++latest;
  byId("list").classList.add("stale");
  const found = await findEpisodes({ ...state, text: state.text.trim() });
  if (!found || request !== latest) return false;
  shown = found;
  byId("list").classList.remove("stale");
  start = Math.min(start, Math.max(0, Math.floor((shown.positions.length - 1) / PAGE) * PAGE));
  showFilters();
  showList();
  return true;
}

/** Show the page of the list with an episode, if the list has it. */
function turnTo(at) {
  const place = shown.positions.indexOf(at);
  if (place >= 0) start = Math.floor(place / PAGE) * PAGE;
  showList();
}
