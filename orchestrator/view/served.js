// Where the episodes come from: the server of `page.py`.
const OPTIONS = { credentials: "omit" };

/** Ask the server; null for what it does not have, such as a version that has gone. */
async function ask(path, parameters = {}) {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`, OPTIONS).catch(() => null);
  return response?.ok ? response : null;
}

const source = {
  about: async () => (await ask("state"))?.json() ?? null,
  list: async ({ version }) => (await ask("list", { version }))?.arrayBuffer() ?? null,
  view: async ({ version }, at) => (await ask("episode", { version, at }))?.json() ?? null,
  /** Return a mark per episode: 1 if a reply contains the text. */
  async found({ version, total }, text) {
    const answer = await ask("found", { version, text });
    if (!answer) return null;
    const marks = new Uint8Array(total);
    for (const at of new Uint32Array(await answer.arrayBuffer())) marks[at] = 1;
    return marks;
  },
};
