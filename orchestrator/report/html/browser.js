// The address holds the browser's state: an episode, a second one beside it, or filters.
const STEP = 150;
const FIELDS = ["model", "scenario", "condition", "kind"];
const episodesByKey = new Map(content.episodes.map((episode) => [episode.key, episode]));
const filters = Object.fromEntries(FIELDS.map((field) => [field, byId(`f-${field}`)]));
const searchTexts = new Map();
let shown = [], open = null, beside = null, limit = STEP;

/** Return the text that the search field matches: key, error, replies and options, in lower case. */
function haystack(episode) {
  if (!searchTexts.has(episode)) {
    const numbers = episode.turns.flatMap((turn) => [turn.reply, turn.prompt, ...(turn.options || []), ...(turn.categories || [])]);
    const texts = [...new Set(numbers)].filter((number) => number !== undefined).map(text);
    searchTexts.set(episode, [episode.key, episode.error ? episode.error[0] : "", ...texts].join("\n").toLowerCase());
  }
  return searchTexts.get(episode);
}

function fits(episode, except) {
  const words = byId("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  return FIELDS.every((field) => field === except || !filters[field].value || episode[field] === filters[field].value)
    && words.every((word) => haystack(episode).includes(word));
}

/** Fill the list of a filter with the values that the other filters leave, with their counts. */
function offer(field) {
  const counts = new Map();
  for (const episode of content.episodes) counts.set(episode[field], counts.get(episode[field]) || 0);
  for (const episode of content.episodes) if (fits(episode, field)) counts.set(episode[field], counts.get(episode[field]) + 1);
  const selected = filters[field].value;
  const all = make("option", { value: "" }, "all");
  const rest = [...counts].filter(([name, count]) => count || name === selected).map(([name, count]) => {
    const option = make("option", { value: name }, `${name} (${count})`);
    option.selected = name === selected;
    return option;
  });
  filters[field].replaceChildren(all, ...rest);
}

function entry(episode) {
  const number = String(episode.sample).padStart(4, "0");
  const turns = pluralize(episode.played, "turn");
  const button = make("button", { type: "button", "aria-current": episode === open ? "true" : null },
    dot(episode), visible(`${episode.scenario} ${number}, ${episode.condition}`), make("small", {}, visible(`${episode.model} · ${episode.kind} · ${turns}`)));
  button.addEventListener("click", () => go(episode));
  return make("li", { "data-key": episode.key }, button);
}

function list() {
  const items = shown.slice(0, limit).map(entry);
  if (!shown.length) items.push(make("li", { class: "empty" }, "No episode matches all filters."));
  if (shown.length > limit) {
    const more = make("button", { type: "button" }, `Show ${Math.min(STEP, shown.length - limit)} more`);
    more.addEventListener("click", () => { const at = limit; limit += STEP; list(); byId("list").children[at].firstElementChild.focus(); });
    items.push(make("li", {}, more));
  }
  byId("list").replaceChildren(...items);
  byId("found").textContent = `${shown.length.toLocaleString("en")} of ${pluralize(content.episodes.length, "episode")}`;
}

function narrow() {
  FIELDS.forEach(offer);
  shown = content.episodes.filter((episode) => fits(episode));
  limit = STEP;
  list();
}

/** Return the episodes of the same sample, those of the same model first. */
function neighbors(episode) {
  const same = content.episodes.filter((other) => other !== episode && other.scenario === episode.scenario && other.sample === episode.sample && other.protocol === episode.protocol);
  const rank = (other) => { const at = content.conditions.indexOf(other.condition); return at < 0 ? 99 : at; };
  return same.sort((a, b) => (a.model !== episode.model) - (b.model !== episode.model) || compare(a.model, b.model) || rank(a) - rank(b));
}

function picker(episode) {
  const select = make("select", { id: "beside" }, make("option", { value: "" }, "nothing"));
  const groups = new Map();
  for (const other of neighbors(episode)) {
    const name = other.model === episode.model ? "Other conditions, same model" : other.model;
    if (!groups.has(name)) groups.set(name, make("optgroup", { label: name }));
    const option = make("option", { value: other.key }, `${other.condition} – ${other.kind}`);
    option.selected = other === beside;
    groups.get(name).append(option);
  }
  select.append(...groups.values());
  select.disabled = !groups.size;
  select.addEventListener("change", () => { go(episode, episodesByKey.get(select.value) || null, "beside"); });
  return make("label", {}, "Beside", select);
}

function tools(episode) {
  const at = shown.indexOf(episode);
  const step = (name, by) => {
    const button = make("button", { type: "button", id: by < 0 ? "previous" : "next" }, name);
    button.disabled = at < 0 || !shown[at + by];
    button.addEventListener("click", () => go(shown[at + by], null, button.id));
    return button;
  };
  return make("div", { class: "ep-tools" }, picker(episode), step("Previous", -1), step("Next", 1));
}

function facts(episode) {
  const parts = [];
  if (episode.answer !== undefined) parts.push(["right answer", episode.answer]);
  parts.push(["turns", episode.limit === undefined ? episode.played : `${episode.played} of at most ${episode.limit}`]);
  if (episode.tokens[1]) parts.push(["tokens read and written", episode.tokens.map((count) => count.toLocaleString("en")).join(" and ")]);
  const line = make("p", { class: "ep-facts" });
  parts.forEach(([name, value], n) => line.append(n ? " · " : "", `${name} `, make("b", {}, visible(String(value)))));
  return line;
}

function show() {
  const article = byId("episode");
  if (!open) return article.replaceChildren();
  const title = `${open.model}, ${open.scenario}, ${open.condition}: ${open.kind}`;
  const link = make("a", { class: "ep-key", href: `#episode=${address(open.key)}`, title: "link to this episode" }, visible(open.key));
  const head = make("div", { class: "ep-head" }, make("div", {}, make("h3", {}, dot(open), visible(title)), link), tools(open));
  const name = (episode) => beside && open.model !== beside.model ? `${episode.model}, ${episode.condition}` : episode.condition;
  const lanes = make("div", { class: beside ? "lanes compared" : "lanes", tabindex: "0", role: "region", "aria-label": "Film strip" }, lane(open, name(open)), beside ? lane(beside, name(beside)) : null);
  const hint = make("p", { class: "hint" }, "Shaded: the option that the reply names. “right” and “counts” mark what would have ended or advanced the episode at that turn.");
  article.replaceChildren(head, facts(open), lanes, hint);
}

function mark() {
  for (const item of byId("list").children) {
    const current = open && item.dataset.key === open.key;
    if (current) item.firstElementChild.setAttribute("aria-current", "true");
    else if (item.firstElementChild) item.firstElementChild.removeAttribute("aria-current");
  }
}

/** Open an episode, and name it in the address. */
function go(episode, other = null, focus = "") {
  open = episode;
  beside = other;
  history.pushState(null, "", `#episode=${address(open.key)}` + (beside ? `&beside=${address(beside.key)}` : ""));
  show();
  mark();
  const target = focus && byId(focus);
  if (target) (target.disabled ? byId("episode") : target).focus({ preventScroll: true });
}

function absent(key) {
  open = beside = null;
  mark();
  byId("episode").replaceChildren(make("p", { class: "problems", id: "absent" },
    `This page holds ${content.episodes.length.toLocaleString("en")} of ${pluralize(content.total, "episode")}, and not this one: `, visible(key.slice(0, 300))));
}

/** Follow the address: an episode by its key, or a cell. */
function follow(jump) {
  const parts = fragment();
  if (parts.episode !== undefined) {
    const episode = episodesByKey.get(parts.episode);
    if (episode) { open = episode; beside = episodesByKey.get(parts.beside) || null; show(); mark(); } else absent(parts.episode);
  } else if (FIELDS.some((field) => parts[field] !== undefined)) {
    for (const field of FIELDS) selectValue(filters[field], parts[field] || "");
    byId("f-text").value = "";
    narrow();
    open = shown[0] || null;
    beside = null;
    show();
    mark();
  } else return;
  if (jump) byId("episodes").scrollIntoView();
}

function selectValue(select, value) {
  if (value && ![...select.options].some((option) => option.value === value)) select.append(make("option", { value }, value));
  select.value = value;
}

/** Arrow keys move through the list; Enter opens an episode. */
byId("list").addEventListener("keydown", (event) => {
  const item = event.target.closest("li");
  const next = { ArrowDown: item?.nextElementSibling, ArrowUp: item?.previousElementSibling, Home: byId("list").firstElementChild, End: byId("list").lastElementChild }[event.key];
  if (next?.firstElementChild?.focus) { event.preventDefault(); next.firstElementChild.focus(); }
});
for (const select of Object.values(filters)) select.addEventListener("change", narrow);
byId("f-text").addEventListener("input", narrow);
addEventListener("hashchange", () => follow(true));
addEventListener("popstate", () => follow(false));

byId("browser").hidden = false;
narrow();
const isTypical = (episode) => episode.turns.length > 2 && episode.turns.length < 9 && episode.turns.every((turn) => typeof turn.picture === "number");
open = shown.find(isTypical) || shown[0] || null;
show();
mark();
follow(true);
