// The episode, the keys, and what changes while a run writes.
let open = -1, beside = -1;
const POLL_MS = 2000, TYPING_MS = 250;

/** Return the choice of an episode to show beside: of the same sample, by run and model. Its values stay valid when positions change. */
function picker(own) {
  const select = make("select", { id: "beside" }, make("option", { value: "" }, "nothing")), groups = new Map();
  const rank = (at) => ["run", "model", "condition"].reduce((sum, part) => sum * 1000 + about.orders[part].indexOf(cellOf(at)[part]), 0);
  for (const at of neighborsOf(own).sort((a, b) => rank(a) - rank(b))) {
    const { run, model, condition } = cellOf(at), name = about.orders.run.length > 1 ? `${run}: ${model}` : model;
    if (!groups.has(name)) groups.set(name, make("optgroup", { label: name }));
    groups.get(name).append(option(JSON.stringify([nameOf(at), run]), `${condition} – ${about.kinds[columns.kind[at]]}`, at === beside));
  }
  select.append(...groups.values());
  select.disabled = !groups.size;
  select.addEventListener("change", () => openEpisodes([open, ...(select.value ? [positionOf(...JSON.parse(select.value))] : [])], true, "beside"));
  return make("label", {}, "Beside", select);
}

function tools() {
  const step = (name, id, title, act) => { const button = make("button", { type: "button", id, title }, name); button.addEventListener("click", act); return button; };
  return make("div", { class: "ep-tools" }, picker(open), step("Previous", "previous", "←", () => move(-1)), step("Next", "next", "→", () => move(1)));
}

function facts(episode) {
  const parts = [];
  if (episode.answer !== undefined) parts.push(["right answer", episode.answer]);
  parts.push(["turns", episode.limit === undefined ? episode.played : `${episode.played} of at most ${episode.limit}`]);
  if (episode.tokens[0] || episode.tokens[1]) parts.push(["tokens read and written", episode.tokens.map((count) => count.toLocaleString("en")).join(" and ")]);
  if (episode.seconds) parts.push(["seconds", episode.seconds]);
  const line = make("p", { class: "ep-facts" });
  parts.forEach(([name, value], n) => line.append(n ? " · " : "", `${name} `, make("b", {}, visible(String(value)))));
  return line;
}

function showViews([own, other]) {
  const title = `${own.model}, ${own.scenario}, ${own.condition}: ${own.kind}`;
  const link = make("a", { class: "ep-key", href: fragmentOf(state), title: "link to this episode" }, visible(own.key));
  const head = make("div", { class: "ep-head" }, make("div", {}, make("h3", {}, dot(own.right), visible(title)), link), tools());
  const name = (episode) => [other && own.run !== other.run ? episode.run : "", other && own.model !== other.model ? episode.model : "", episode.condition].filter(Boolean).join(", ");
  const lanes = make("div", { class: other ? "lanes compared" : "lanes", tabindex: "0", role: "region", "aria-label": "Film strip" }, lane(own, name(own)), other ? lane(other, name(other)) : null);
  const hint = make("p", { class: "hint" }, "Shaded: the option that the reply names. “correct” and “counts” mark what would have ended or advanced the episode at that turn.");
  byId("episode").replaceChildren(head, facts(own), lanes, hint);
  byId("list").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

const showNothing = (...words) => byId("episode").replaceChildren(make("p", { class: "problems", id: "absent" }, ...words));

/** Show one or two episodes; `keep` adds the address to the history. */
async function openEpisodes(positions, keep, focus = "") {
  const views = await Promise.all(positions.map((at) => source.view(about, at)));
  if (views.includes(null)) return;
  [open, beside] = [positions[0], positions[1] ?? -1];
  const [own, other] = views;
  Object.assign(state, { episode: nameOf(open), episode_run: own.run, beside: other ? nameOf(beside) : "", beside_run: other?.run ?? "" });
  if (keep) history.pushState(null, "", fragmentOf(state)); else history.replaceState(null, "", fragmentOf(state));
  turnTo(open);
  showViews(views);
  if (focus) byId(focus)?.focus({ preventScroll: true });
}

/** Open the next or previous episode of the list, over the ends of its pages too. */
async function move(by) {
  const place = shown.positions.indexOf(open), next = place < 0 ? 0 : place + by;
  if (next >= 0 && next < shown.positions.length) await openEpisodes([shown.positions[next]], true);
}

function turnPage(by) {
  const next = start + by * PAGE;
  if (next < 0 || next >= shown.positions.length) return;
  start = next;
  showList();
  byId("list").scrollTop = 0;
}

/** List what the filters now leave, and show only an episode that is among it. */
async function narrow() {
  for (const name of FIELDS) state[name] = filters.elements[name].value.trim();
  history.pushState(null, "", fragmentOf(state));
  if (!(await search())) return;
  if (shown.positions.includes(open)) turnTo(open);
  else if (shown.positions.length) await openEpisodes([firstToShow(shown.positions)], false);
  else { open = -1; showNothing("No episode matches all filters."); }
}

/** Follow the address: its filters, then its episodes. */
async function follow() {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const name of ADDRESS) state[name] = (parts.get(name) || "").slice(0, name === "text" ? 300 : 1000);
  if (!(await search())) return;
  if (!state.episode) { if (shown.positions.length) await openEpisodes([firstToShow(shown.positions)], false); return; }
  const positions = [positionOf(state.episode, state.episode_run)];
  if (state.beside) positions.push(positionOf(state.beside, state.beside_run));
  if (positions.includes(-1)) showNothing("No stored episode has this name: ", visible(state[positions[0] < 0 ? "episode" : "beside"].slice(0, 300)));
  else await openEpisodes(positions, false);
}

async function poll() {
  const wasEmpty = !about.total;
  if (!document.hidden && (await loadColumns().catch(() => false))) {
    open = state.episode && !wasEmpty ? positionOf(state.episode, state.episode_run) : -1;
    if (await search()) { if (wasEmpty && shown.positions.length) await openEpisodes([firstToShow(shown.positions)], false); }
  } else showProgress();
  setTimeout(poll, POLL_MS);
}

// Arrows move through the list, unless what has the focus needs them.
addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, .lanes")) return;
  event.preventDefault();
  move(by);
});
let typed = 0;
filters.addEventListener("input", (event) => {
  if (event.target.type !== "search") return;
  clearTimeout(typed);
  typed = setTimeout(narrow, TYPING_MS);
});
filters.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") narrow(); });
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", (event) => {
  event.preventDefault();
  for (const name of FIELDS) filters.elements[name].value = "";
  narrow();
});
byId("page-back").addEventListener("click", () => turnPage(-1));
byId("page-next").addEventListener("click", () => turnPage(1));
addEventListener("popstate", follow);
loadColumns().then(follow).then(() => { if (!content.bundle) setTimeout(poll, POLL_MS); }).catch((problem) => console.error(problem));
