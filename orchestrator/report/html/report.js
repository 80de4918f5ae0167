// No text becomes markup: every node is made here, and every text enters as text.
const content = JSON.parse(document.getElementById("content").textContent);
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a string child is a text node. */
function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// what prints as nothing, or changes the order in which the rest prints; line ends and tabs print as themselves
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** The text with hidden characters shown by their code point. */
function visible(text) {
  const whole = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    whole.append(text.slice(from, found.index), make("span", { class: "ctl", title: "a character that does not print" }, `U+${code}`));
    from = found.index + found[0].length;
  }
  whole.append(text.slice(from));
  return whole;
}

/** `#episode=KEY&beside=KEY` as an object; what cannot be decoded is left out. */
function fragment() {
  const parts = {};
  for (const part of location.hash.slice(1).split("&")) {
    const at = part.indexOf("=");
    if (at < 1) continue;
    try { parts[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1)); } catch { /* not ours */ }
  }
  return parts;
}

/** `1 row`, `2,000 rows`. */
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A key in an address: slashes stay readable. */
const address = (key) => encodeURIComponent(key).replaceAll("%2F", "/");
