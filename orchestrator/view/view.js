// The episode, the keys, and what changes while a run writes.
let open = { id: "", run: "" };
const POLL_MS = 2000, TYPING_MS = 250;

function picker(view) {
  const select = make("select", { id: "beside" }, make("option", { value: "" }, "nothing"));
  const groups = new Map();
  const [own, other] = view.episodes;
  const rank = (row) => { const at = content.conditions.indexOf(row.condition); return at < 0 ? 99 : at; };
  const rows = view.neighbors.toSorted((a, b) => (a.run !== own.run) - (b.run !== own.run) || (a.model !== own.model) - (b.model !== own.model) || a.model.localeCompare(b.model, "en", { numeric: true }) || rank(a) - rank(b));
  for (const row of rows) {
    const name = row.run !== own.run ? `${row.run}: ${row.model}` : row.model === own.model ? "Other conditions, same model" : row.model;
    if (!groups.has(name)) groups.set(name, make("optgroup", { label: name }));
    groups.get(name).append(option(`${row.id} ${row.run}`, `${row.condition} – ${row.kind}`, Boolean(other) && row.id === view.ids[1] && row.run === other.run));
  }
  select.append(...groups.values());
  select.disabled = !groups.size;
  select.addEventListener("change", () => {
    const [id, ...run] = select.value.split(" ");
    openEpisode({ episode_id: open.id, episode_run: open.run, ...(id ? { beside_id: id, beside_run: run.join(" ") } : {}) }, true, "beside");
  });
  return make("label", {}, "Beside", select);
}

function tools(view) {
  const step = (name, id, act) => { const button = make("button", { type: "button", id }, name); button.addEventListener("click", act); return button; };
  return make("div", { class: "ep-tools" }, picker(view), step("Previous", "previous", () => move(-1)), step("Next", "next", () => move(1)), step("Next failure", "next-failure", () => openFailure("next")));
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

/** Ask which option the last reply names; a click or a digit stores the answer, and the next episode opens. */
function labelForm(view) {
  const [own] = view.episodes;
  if (!content.labeler || !own.choices.length) return null;
  const before = view.label;
  const choices = [["none", "none of them"], ...own.choices.map((name, number) => [String(number), name])];
  const unsure = make("input", { type: "checkbox", name: "unsure" });
  const note = make("input", { type: "search", name: "note", maxlength: "500", autocomplete: "off" });
  unsure.checked = Boolean(before?.unsure);
  note.value = before?.note || "";
  const said = make("p", { class: "count", id: "label-said", role: "status" }, before ? "You have labeled this episode." : "");
  const store = async (label) => {
    const body = new URLSearchParams({ run: own.run, key: own.key, label, note: note.value, unsure: String(unsure.checked) });
    const response = await fetch("label", { method: "POST", body, credentials: "omit" }).catch(() => null);
    if (response?.ok) await move(1); else said.textContent = "The label could not be stored.";
  };
  const list = make("ol", { class: "choices" }, ...choices.map(([label, name], number) => {
    const button = make("button", { type: "button", "data-digit": number < 10 ? String(number) : null, "aria-pressed": String(before?.label === label) },
      make("kbd", {}, number < 10 ? String(number) : "·"), visible(` ${name}`));
    button.addEventListener("click", () => store(label));
    return make("li", {}, button);
  }));
  return make("section", { class: "label", "aria-label": "Label" }, make("h4", {}, `${content.labeler}: which option does the last reply name?`), list,
    make("div", { class: "label-more" }, make("label", { class: "check" }, unsure, "unsure"), make("label", {}, "Note ", note)), said);
}

function showEpisode(view) {
  content.texts = view.texts;
  content.pictures = view.pictures;
  const [own, other] = view.episodes;
  open = { id: view.ids[0], run: own.run };
  const title = `${own.model}, ${own.scenario}, ${own.condition}: ${own.kind}`;
  const link = make("a", { class: "ep-key", href: fragmentOf({ ...state, episode: own.key, episode_run: own.run }), title: "link to this episode" }, visible(own.key));
  const head = make("div", { class: "ep-head" }, make("div", {}, make("h3", {}, dot(own), visible(title)), link), tools(view));
  const name = (episode) => [other && own.run !== other.run ? episode.run : "", other && own.model !== other.model ? episode.model : "", episode.condition].filter(Boolean).join(", ");
  const lanes = make("div", { class: other ? "lanes compared" : "lanes", tabindex: "0", role: "region", "aria-label": "Film strip" }, lane(own, name(own)), other ? lane(other, name(other)) : null);
  const hint = make("p", { class: "hint" }, "Shaded: the option that the reply names. “right” and “counts” mark what would have ended or advanced the episode at that turn.");
  byId("episode").replaceChildren(...[head, facts(own), lanes, hint, labelForm(view)].filter(Boolean));
  mark();
}

function mark() {
  for (const item of byId("list").children) {
    const button = item.firstElementChild;
    if (!button) continue;
    if (item.dataset.id === open.id) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
  }
  byId("list").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

/** Load film strips; `keep` adds the address to the history. */
async function openEpisode(query, keep, focus = "") {
  const view = await ask("episode", new URLSearchParams(query));
  if (!view) {
    byId("episode").replaceChildren(make("p", { class: "problems", id: "absent" }, "No stored episode has this key: ", visible(String(query.episode || "").slice(0, 300))));
    return;
  }
  showEpisode(view);
  const [own, other] = view.episodes;
  Object.assign(state, { episode: own.key, episode_run: own.run, beside: other ? other.key : "", beside_run: other ? other.run : "" });
  if (keep) history.pushState(null, "", fragmentOf(state)); else history.replaceState(null, "", fragmentOf(state));
  if (focus) byId(focus)?.focus({ preventScroll: true });
}

const openRow = (row) => openEpisode({ episode_id: row.id, episode_run: row.run }, true);

/** Open the next or previous episode of the list, over the ends of its pages too. */
async function move(by) {
  const at = page.rows.findIndex((row) => row.id === open.id && row.run === open.run);
  const next = at < 0 ? 0 : at + by;
  if (page.rows[next]) return openRow(page.rows[next]);
  if (next < 0 ? await turnPage(-1) : await turnPage(1)) await openRow(next < 0 ? page.rows.at(-1) : page.rows[0]);
}

async function openFailure(step) {
  const answer = await loadRows({ episode_id: open.id, episode_run: open.run, step, start: page.start });
  if (answer && answer.row !== null) await openRow(answer.rows[answer.row - answer.start]);
  else if (answer) byId("matches").textContent += ", no further failure";
}

/** Go to the next or previous page of the list; return false at its ends. */
async function turnPage(by) {
  const start = page.start + by * content.rows;
  if (start < 0 || start >= page.matches) return false;
  await loadRows({ start });
  byId("list").scrollTop = 0;
  return true;
}

async function narrow() {
  for (const name of FIELDS) state[name] = filters.elements[name].value.trim();
  state.sort = byId("sort").value;
  history.pushState(null, "", fragmentOf(state));
  await loadRows();
}

/** Follow the address: its filters, then its episode. */
async function follow() {
  readAddress();
  const named = { episode: state.episode, episode_run: state.episode_run, ...(state.beside ? { beside: state.beside, beside_run: state.beside_run } : {}) };
  await Promise.all([loadRows(state.episode ? { episode: state.episode, episode_run: state.episode_run } : {}), state.episode ? openEpisode(named, false) : null]);
  if (!state.episode && page.rows.length) await openEpisode({ episode_id: page.rows[0].id, episode_run: page.rows[0].run }, false);
}

async function poll() {
  const now = document.hidden ? null : await ask("state", "").catch(() => null);
  if (now && now.version !== page.version) {
    const wasEmpty = !page.total;
    await loadRows({ start: page.start });
    if (wasEmpty && page.rows.length) await openEpisode({ episode_id: page.rows[0].id, episode_run: page.rows[0].run }, false);
  } else if (now && now.reading !== page.reading) { page.reading = now.reading; showProgress(); }
  setTimeout(poll, POLL_MS);
}

function clear() {
  for (const name of FIELDS) { state[name] = ""; filters.elements[name].value = ""; }
  narrow();
}

const KEYS = {
  j: () => move(1), k: () => move(-1), f: () => openFailure("next"), d: () => openFailure("previous"), "[": () => turnPage(-1), "]": () => turnPage(1),
  u: () => byId("episode").querySelector("[name=unsure]")?.click(),
  "/": () => filters.elements.text.focus(), b: () => byId("beside")?.focus(), c: clear, "?": () => byId("help").showModal(),
};
addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape" && typing) return event.target.blur();
  if (typing || event.ctrlKey || event.altKey || event.metaKey || byId("help").open || !byId("keys-on").checked) return;
  const choice = byId("episode").querySelector(`[data-digit="${/^[0-9]$/.test(event.key) ? event.key : "x"}"]`);
  if (choice) return choice.click();
  if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
});
byId("list").addEventListener("keydown", (event) => {
  const item = event.target.closest("li");
  const next = { ArrowDown: item?.nextElementSibling, ArrowUp: item?.previousElementSibling, Home: byId("list").firstElementChild, End: byId("list").lastElementChild }[event.key];
  if (next?.firstElementChild?.focus) { event.preventDefault(); next.firstElementChild.focus(); }
});
let typed = 0;
filters.addEventListener("input", (event) => {
  if (event.target.type !== "search") return;
  clearTimeout(typed);
  typed = setTimeout(narrow, TYPING_MS);
});
filters.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") narrow(); });
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", (event) => { event.preventDefault(); clear(); });
byId("sort").addEventListener("change", narrow);
byId("page-back").addEventListener("click", () => turnPage(-1));
byId("page-on").addEventListener("click", () => turnPage(1));
byId("help-open").addEventListener("click", () => byId("help").showModal());
addEventListener("popstate", follow);
follow().then(() => { if (!content.bundle) setTimeout(poll, POLL_MS); });
