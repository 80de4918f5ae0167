// Where the episodes come from: the server of `page.py`, or the static files of `bundle.py`, which any server sends, also one
// without ranges.
/** Ask the server; null for what it does not have, such as a version that has gone. */
async function ask(path, parameters = {}) {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`, { credentials: "omit" }).catch(() => null);
  return response?.ok ? response : null;
}

const server = {
  about: async () => (await ask("state"))?.json() ?? null,
  list: async ({ version }) => (await ask("list", { version }))?.arrayBuffer() ?? null,
  view: async ({ version }, at) => (await ask("episode", { version, at }))?.json() ?? null,
  /** Return the positions of the episodes with a reply that contains the text. */
  async found({ version }, text) {
    const answer = await ask("found", { version, text });
    return answer && new Uint32Array(await answer.arrayBuffer());
  },
};

const bundle = content.bundle;
const openFiles = new Map();

/** Return a Parquet file and its metadata. */
function openFile(name, byteLength) {
  if (!openFiles.has(name)) {
    const reading = hyparquet.asyncBufferFromUrl({ url: `${name}?${bundle.version}`, byteLength, requestInit: { credentials: "omit" } })
      .then(async (file) => ({ file, metadata: await hyparquet.parquetMetadataAsync(file, { initialFetchSize: Math.min(byteLength, 65536) }) }));
    reading.catch(() => openFiles.delete(name));
    openFiles.set(name, reading);
  }
  return openFiles.get(name);
}

/** Return the values of a text column in some rows of file `number` of a kind. */
async function readRows(kind, sizes, number, column, rowStart, rowEnd) {
  const { file, metadata } = await openFile(`${kind}-${String(number).padStart(4, "0")}.parquet`, sizes[number]);
  let rows = [];
  await hyparquet.parquetRead({ file, metadata, compressors, columns: [column], rowStart, rowEnd, utf8: false, rowFormat: "object", onComplete: (all) => { rows = all; } });
  return rows.map((row) => row[column]);
}

async function loadPicture(number) {
  const row = number % bundle.file_pictures;
  const [bytes] = await readRows("pictures", bundle.picture_bytes, Math.floor(number / bundle.file_pictures), "picture", row, row + 1);
  return `data:image/webp;base64,${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
}

const files = {
  about: async () => bundle,
  async list() {
    try {
      return (await openFile("list.parquet", bundle.list_bytes)).file;
    } catch (problem) {
      byId("progress").textContent = location.protocol === "file:"
        ? "Serve this folder, for example with `python -m http.server --bind 127.0.0.1`, and open its address." : "A file of this folder could not be read.";
      throw problem;
    }
  },
  async view(about, at) {
    const row = at % bundle.file_episodes;
    const [json] = await readRows("episodes", bundle.episode_bytes, Math.floor(at / bundle.file_episodes), "view", row, row + 1);
    const view = JSON.parse(json);
    const numbers = view.turns.map((turn) => turn.picture).filter((number) => typeof number === "number");
    view.pictures = Object.fromEntries(await Promise.all([...new Set(numbers)].map(async (number) => [number, await loadPicture(number)])));
    return view;
  },
};

const source = bundle ? files : server;
