// A strip shows one episode: one card per turn with the picture, the options, the reply and its reading.
const letter = (index) => String.fromCharCode(65 + index);

/** Return the mark of an episode that is right (1), not right (0) or without a score (-1). */
const dot = (right) => make("span", { class: `dot ${{ 1: "correct", 0: "wrong" }[right] ?? "none"}`, "aria-hidden": "true" });

function shot(turn, pictures) {
  const name = turn.image;
  if (typeof turn.picture === "number") {
    const picture = make("img", { src: pictures[turn.picture], alt: `What the model saw at turn ${turn.turn + 1}`, title: name, loading: "lazy" });
    return make("div", { class: "shot" }, picture);
  }
  return make("div", { class: "shot" }, make("p", {}, `No picture: ${turn.picture}`, make("br"), visible(name)));
}

/** List the options in the order of the prompt, lettered across suggestions and categories. */
function options(turn) {
  if (!turn.options) return null;
  const first = turn.options.length;
  const items = [...turn.options, ...turn.categories].map((label, n) => {
    const said = turn.said.includes(n), counts = turn.asks.includes(n), right = turn.answer === n;
    const classes = [said && "said", right && "right", n === first && n && "first-category"].filter(Boolean).join(" ");
    return make("li", { class: classes || null, "aria-label": said ? `${letter(n)}, named by the reply` : null },
      make("span", {}, letter(n)), make("span", {}, visible(label)), make("em", {}, counts ? "counts" : right ? "correct" : ""));
  });
  return make("ul", { class: "options" }, ...items);
}

function replyBox(turn) {
  const { reply } = turn;
  if (!reply) return make("p", { class: "reply empty" }, "empty reply");
  const box = make("pre", { class: "reply", tabindex: "0", dir: "auto", "aria-label": "Reply" }, visible(reply));
  if (!turn.length) return box;
  return make("div", {}, box, make("span", { class: "cutoff" },
    `first ${reply.length.toLocaleString("en")} of ${turn.length.toLocaleString("en")} characters; the full reply is in the run folder`));
}

function reading(turn) {
  if (turn.action === null) return null; // an open question, which only a judge reads
  const color = turn.action === "category" ? (turn.category === "correct" ? "right-category" : "wrong-category") : turn.action;
  const move = turn.move ? `, ${["left", "right", "up", "down"].includes(turn.move) ? "moved " : ""}${turn.move}` : "";
  const sides = `as suggestion: ${turn.option} · as category: ${turn.category}`;
  return make("p", { class: "act" }, make("i", { class: `k-${color}` }), visible(`${turn.action}${move}`), make("small", {}, visible(sides)));
}

/** Return what the model thought before its reply, folded. */
function thoughts(turn) {
  if (turn.thoughts === undefined) return null;
  return make("details", {}, make("summary", {}, "Thoughts"), make("pre", { class: "reply", tabindex: "0", dir: "auto", "aria-label": "Thoughts" }, visible(turn.thoughts)));
}

function card(turn, before, pictures) {
  const asked = turn.prompt !== undefined && (!before || before.prompt !== turn.prompt) ? make("p", { class: "ask" }, visible(turn.prompt)) : null;
  const edge = turn.edge ? `, short edge ${turn.edge}` : "";
  return make("li", { class: "card" },
    make("header", {}, make("b", {}, `Turn ${turn.turn + 1}`), make("span", {}, `frame ${turn.frame}${edge}`)),
    shot(turn, pictures),
    make("div", { class: "card-body" }, asked, options(turn), thoughts(turn), replyBox(turn), reading(turn)));
}

/** Return a labeled value; a text comes as an array with its full length, which is 0 if it was not cut. */
function labeled(name, value) {
  if (!Array.isArray(value)) return make("p", {}, `${name}: ${value}`);
  const [excerpt, length] = value;
  const more = length ? ` (first ${excerpt.length} of ${length} characters)` : "";
  return make("p", { class: "wide", tabindex: excerpt.length > 200 ? "0" : null }, visible(`${name}: ${excerpt}${more}`));
}

function ending(episode) {
  const body = make("div", { class: "card-body" }, make("h4", {}, dot(episode.right), episode.kind), make("p", {}, content.kinds[episode.kind] || ""));
  if (episode.error) body.append(labeled("Error", episode.error));
  for (const verdict of episode.judged || []) {
    body.append(make("h4", {}, "Judge"));
    for (const [name, value] of Object.entries(verdict)) body.append(labeled(name, value));
  }
  return make("li", { class: "card end" }, make("header", {}, make("b", {}, "Ending")), body);
}

function lane(episode, name) {
  const strip = make("ol", { class: "strip" });
  episode.turns.forEach((turn, n) => {
    const before = episode.turns[n - 1];
    const missing = before ? turn.turn - before.turn - 1 : 0;
    if (missing > 0) strip.append(make("li", { class: "gap" }, `${pluralize(missing, "more turn")} in the run folder`));
    strip.append(card(turn, before, episode.pictures));
  });
  strip.append(ending(episode));
  const why = episode.why ? make("span", {}, visible(` – ${episode.why}`)) : null;
  return make("div", { class: "lane" }, make("p", { class: "lane-head" }, dot(episode.right), visible(name), why), strip);
}
