// No text becomes markup: all nodes are created here, and every text is a text node.
const content = JSON.parse(document.getElementById("content").textContent);
const byId = (id) => document.getElementById(id);

/** Create an element with attributes and children, without those that are null; a string child is a text node. */
function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

// Characters that are invisible or reorder other text; line ends and tabs are not among them.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Return the text with hidden characters replaced by their code points. */
function visible(text) {
  const nodes = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.append(text.slice(from, match.index), make("span", { class: "ctl", title: "a character that does not print" }, `U+${code}`));
    from = match.index + match[0].length;
  }
  nodes.append(text.slice(from));
  return nodes;
}

/** Return `1 row` or `2,000 rows`. */
const pluralize = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
