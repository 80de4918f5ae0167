// A strip is one episode: a card a turn with what the model saw, what it could choose, what it said and how that was read.
const text = (place) => content.texts[place];
const letter = (place) => String.fromCharCode(65 + place);
const NO_ANSWER = new Set(["unprocessable", "refused", "failed"]);

function dot(episode) {
  const kind = episode.ending === "correct" ? "correct" : NO_ANSWER.has(episode.ending) ? "none" : "wrong";
  return make("span", { class: `dot ${kind}`, "aria-hidden": "true" });
}

function shot(turn) {
  const what = text(turn.image);
  if (typeof turn.picture === "number") {
    const picture = make("img", { src: content.pictures[turn.picture], alt: `What the model saw at turn ${turn.turn + 1}`, title: what, loading: "lazy" });
    return make("div", { class: "shot" }, picture);
  }
  return make("div", { class: "shot" }, make("p", {}, `No picture: ${turn.picture}`, make("br"), visible(what)));
}

/** The options in the order shown, lettered across suggestions and categories. */
function options(turn) {
  if (!turn.options) return null;
  const list = make("ul", { class: "options" });
  const shown = turn.options.length;
  [...turn.options, ...turn.categories].forEach((place, n) => {
    const asking = n < shown;
    const said = asking ? turn.said[0] === n : turn.said[1] === n - shown;
    const counts = asking ? turn.asks.includes(n) : turn.answer === n - shown;
    const word = counts ? (asking ? "counts" : "right") : "";
    const classes = [said ? "said" : "", counts ? word : "", n === shown && shown ? "first-category" : ""].filter(Boolean).join(" ");
    list.append(make("li", { class: classes || null, "aria-label": said ? `${letter(n)}, named by the reply` : null },
      make("span", {}, letter(n)), make("span", {}, visible(text(place))), make("em", {}, word)));
  });
  return list;
}

function replied(turn) {
  const said = text(turn.reply);
  if (!said) return make("p", { class: "reply empty" }, "empty reply");
  const box = make("pre", { class: "reply", tabindex: "0", dir: "auto", "aria-label": "Reply" }, visible(said));
  if (!turn.length) return box;
  return make("div", {}, box, make("span", { class: "cutoff" },
    `first ${said.length.toLocaleString("en")} of ${turn.length.toLocaleString("en")} characters; the whole is in the store`));
}

function reading(turn) {
  if (turn.action === null) return null; // an open question: how it is read is the judge's matter
  const colour = turn.action === "category" ? (turn.category === "correct" ? "right-category" : "wrong-category") : turn.action;
  const move = turn.move ? ` → ${turn.move}` : "";
  const sides = `as suggestion: ${turn.option} · as category: ${turn.category}`;
  return make("p", { class: "act" }, make("i", { class: `k-${colour}` }), visible(`${turn.action}${move}`), make("small", {}, visible(sides)));
}

function card(turn, before) {
  const asked = turn.prompt !== undefined && (!before || before.prompt !== turn.prompt) ? make("p", { class: "ask" }, visible(text(turn.prompt))) : null;
  const edge = turn.edge ? `, short edge ${turn.edge}` : "";
  return make("li", { class: "card" },
    make("header", {}, make("b", {}, `Turn ${turn.turn + 1}`), make("span", {}, `frame ${turn.frame}${edge}`)),
    shot(turn),
    make("div", { class: "card-body" }, asked, options(turn), replied(turn), reading(turn)));
}

/** Texts of a judge come with the length of the whole where they were cut. */
function told(name, given) {
  if (!Array.isArray(given)) return make("p", {}, `${name}: ${given}`);
  const more = given[1] ? ` (first ${given[0].length} of ${given[1]} characters)` : "";
  return make("p", { class: "wide", tabindex: given[0].length > 200 ? "0" : null }, visible(`${name}: ${given[0]}${more}`));
}

function ending(episode) {
  const body = make("div", { class: "card-body" }, make("h4", {}, dot(episode), episode.kind), make("p", {}, content.kinds[episode.kind] || ""));
  if (episode.error) body.append(told("Error", episode.error));
  for (const verdict of episode.judged || []) {
    body.append(make("h4", {}, "Judge"));
    for (const [name, given] of Object.entries(verdict)) if (name !== "key") body.append(told(name, given));
  }
  return make("li", { class: "card end" }, make("header", {}, make("b", {}, "Ending")), body);
}

function lane(episode, name) {
  const strip = make("ol", { class: "strip" });
  episode.turns.forEach((turn, n) => {
    const before = episode.turns[n - 1];
    const missing = before ? turn.turn - before.turn - 1 : 0;
    if (missing > 0) strip.append(make("li", { class: "gap" }, `${missing} turns more in the store`));
    strip.append(card(turn, before));
  });
  strip.append(ending(episode));
  const why = episode.why ? make("span", {}, visible(` – ${episode.why}`)) : null;
  return make("div", { class: "lane" }, make("p", { class: "lane-head" }, dot(episode), visible(name), why), strip);
}
