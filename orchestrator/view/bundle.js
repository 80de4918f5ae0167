// Answers the page's requests from static files, as `page.py` does on a server; the id of an episode is its position.
const bundle = content.bundle;
const NUMBER_ARRAYS = { cell: Uint32Array, sample: Int32Array, kind: Uint8Array, right: Int8Array, turns: Uint32Array, flags: Uint8Array, seconds: Float32Array, read: Uint32Array, written: Uint32Array, hash: Uint32Array };
const columns = {};
const CELL_NAMES = ["run", "model", "scenario", "condition", "protocol"];
const compressors = { ZSTD: (bytes, length) => hyparquet.decompress(bytes, new Uint8Array(length)) };
const OPEN_FILES = 8, MOST_NEIGHBORS = 1000;
const openFiles = new Map();

/** Return a Parquet file and its metadata; a server without ranges sends the whole file once. */
function openFile(name, byteLength) {
  if (!openFiles.has(name)) {
    const reading = hyparquet.asyncBufferFromUrl({ url: `${name}?${bundle.version}`, byteLength, requestInit: { credentials: "omit" } })
      .then(async (file) => ({ file, metadata: await hyparquet.parquetMetadataAsync(file, { initialFetchSize: Math.min(byteLength, 65536) }) }));
    reading.catch(() => openFiles.delete(name));
    openFiles.set(name, reading);
    if (openFiles.size > OPEN_FILES) openFiles.delete(openFiles.keys().next().value);
  }
  return openFiles.get(name);
}

/** Return the values of a text column in some rows. */
async function readRows(name, byteLength, column, rowStart, rowEnd) {
  const { file, metadata } = await openFile(name, byteLength);
  let rows = [];
  await hyparquet.parquetRead({ file, metadata, compressors, columns: [column], rowStart, rowEnd, utf8: false, rowFormat: "object", onComplete: (all) => { rows = all; } });
  return rows.map((row) => row[column]);
}

let listing = null;
/** Load the columns of all episodes, once. */
function loadColumns() {
  listing ??= (async () => {
    const { file, metadata } = await openFile("list.parquet", bundle.list_bytes);
    for (const [name, kind] of Object.entries(NUMBER_ARRAYS)) columns[name] = new kind(bundle.total);
    await hyparquet.parquetRead({ file, metadata, compressors, onChunk: ({ columnName, columnData, rowStart }) => {
      columns[columnName].set(columnData, rowStart);
    } });
  })();
  return listing;
}

const fileOf = (position) => [Math.floor(position / bundle.file_episodes), position % bundle.file_episodes];
const padded = (number) => String(number).padStart(4, "0");
const nameOf = (position, name) => bundle.cells[columns.cell[position]][name];
const cellFits = (wanted) => Uint8Array.from(bundle.cells, (cell) => wanted.every(([name, value]) => cell[name] === value));
const lowered = (text) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Mark the scored episodes whose outcome differs from that of the named model in their run, or of the named run. */
function endedOtherwise(kind, name) {
  const groups = new Map(), same = kind === "model" ? "run" : "model";
  const groupOf = bundle.cells.map((cell) => {
    const key = JSON.stringify([cell.scenario, cell.condition, cell.protocol, cell[same]]);
    if (!groups.has(key)) groups.set(key, groups.size);
    return groups.get(key);
  });
  const other = cellFits([[kind, name]]), partners = new Map(), marks = new Uint8Array(bundle.total);
  const question = (at) => groupOf[columns.cell[at]] * 2 ** 32 + columns.sample[at];
  for (let at = 0; at < bundle.total; at++) if (other[columns.cell[at]] && columns.right[at] >= 0 && !partners.has(question(at))) partners.set(question(at), columns.right[at]);
  for (let at = 0; at < bundle.total; at++) {
    if (other[columns.cell[at]] || columns.right[at] < 0) continue;
    const theirs = partners.get(question(at));
    marks[at] = theirs !== undefined && theirs !== columns.right[at] ? 1 : 0;
  }
  return marks;
}

/** Return one test per filter that is set, by its name; the text of replies is not among them. */
function filterTests(query) {
  const all = {};
  for (const name of CELL_NAMES) if (query[name]) { const fits = cellFits([[name, query[name]]]); all[name] = (at) => fits[columns.cell[at]]; }
  if (query.kind) { const kind = bundle.kinds.indexOf(query.kind); all.kind = (at) => columns.kind[at] === kind; }
  if (query.outcome) { const right = bundle.outcomes[query.outcome] ?? 9; all.outcome = (at) => columns.right[at] === right; }
  for (const name of ["action", "flag"]) if (query[name]) { const bit = bundle[`${name}s`][query[name]] ?? 0; all[name] = (at) => columns.flags[at] & bit; }
  if (query.sample) { const number = /^[0-9]{1,9}$/.test(query.sample) ? Number(query.sample) : -2; all.sample = (at) => columns.sample[at] === number; }
  if (query.differs) {
    const [kind, name] = [query.differs.split(":")[0], query.differs.slice(query.differs.indexOf(":") + 1)];
    const marks = ["model", "run"].includes(kind) ? endedOtherwise(kind, name) : new Uint8Array(bundle.total);
    all.differs = (at) => marks[at];
  }
  return all;
}

function passing(checks, without = "") {
  const wanted = Object.entries(checks).filter(([name]) => name !== without).map(([, check]) => check);
  const passed = new Uint8Array(bundle.total);
  for (let at = 0; at < bundle.total; at++) passed[at] = wanted.every((check) => check(at)) ? 1 : 0;
  return passed;
}

/** Clear the marks of episodes without the text in any reply, file by file; stop at a newer request. */
async function keepReplies(passed, text) {
  const request = latest, wanted = lowered(text);
  const files = bundle.episode_bytes.length;
  for (let number = 0; number < files; number++) {
    const start = number * bundle.file_episodes, end = Math.min(start + bundle.file_episodes, bundle.total);
    const inside = passed.subarray(start, end);
    const first = inside.indexOf(1);
    if (first < 0) continue;
    byId("progress").textContent = `reading replies: file ${number + 1} of ${files}`;
    const replies = await readRows(`episodes-${padded(number)}.parquet`, bundle.episode_bytes[number], "replies", first, inside.lastIndexOf(1) + 1);
    if (request !== latest) return;
    replies.forEach((reply, n) => { if (inside[first + n] && !lowered(reply).includes(wanted)) inside[first + n] = 0; });
  }
}

/** Return how many marked episodes have each value of each filter, in the page's order. */
function countAll(passed) {
  const cells = new Uint32Array(bundle.cells.length), kinds = new Uint32Array(bundle.kinds.length), rights = new Uint32Array(3), flags = new Uint32Array(256);
  for (let at = 0; at < bundle.total; at++) {
    if (!passed[at]) continue;
    cells[columns.cell[at]]++; kinds[columns.kind[at]]++; rights[columns.right[at] + 1]++; flags[columns.flags[at]]++;
  }
  const counted = {};
  for (const name of CELL_NAMES) {
    const totals = new Map(bundle.orders[name].map((value) => [value, 0]));
    bundle.cells.forEach((cell, n) => totals.set(cell[name], totals.get(cell[name]) + cells[n]));
    counted[name] = [...totals];
  }
  const flagged = (bits) => Object.entries(bits).map(([label, bit]) => [label, flags.reduce((sum, size, value) => sum + (value & bit ? size : 0), 0)]);
  counted.kind = bundle.kinds.map((kind, n) => [kind, kinds[n]]);
  counted.outcome = Object.entries(bundle.outcomes).map(([label, right]) => [label, rights[right + 1]]);
  counted.action = flagged(bundle.actions);
  counted.flag = flagged(bundle.flags);
  return counted;
}

/** Return per filter the counts of its values under the other filters; with a text, under all filters. */
function countsOf(query, checks, passed) {
  const counted = countAll(passed);
  if (!query.text.trim()) for (const name of Object.keys(counted)) if (query[name]) counted[name] = countAll(passing(checks, name))[name];
  return Object.fromEntries(Object.entries(counted).map(([name, pairs]) => [name, pairs.filter(([, count]) => count)]));
}

function valuesOf(sort) {
  const ranked = (name) => { const ranks = bundle.cells.map((cell) => bundle.orders[name].indexOf(cell[name])); return (at) => ranks[columns.cell[at]]; };
  if (sort === "model" || sort === "condition") return ranked(sort);
  const column = { sample: "sample", ending: "kind", turns: "turns", seconds: "seconds", "tokens read": "read", "tokens written": "written" }[sort];
  return column ? (at) => columns[column][at] || 0 : null;
}

/** Return the marked positions in the query's order; equal ones as stored. */
function ordered(passed, sort) {
  const positions = [];
  for (let at = 0; at < bundle.total; at++) if (passed[at]) positions.push(at);
  const valueOf = valuesOf(sort.replace(/^-/, ""));
  if (!valueOf) return Uint32Array.from(positions);
  const values = Float64Array.from(positions, sort.startsWith("-") ? (at) => -valueOf(at) : valueOf);
  const distinct = Float64Array.from(new Set(values)).sort();
  const ranks = new Map(Array.from(distinct, (value, rank) => [value, rank]));
  const marked = Float64Array.from(positions, (at, n) => ranks.get(values[n]) * 2 ** 26 + at).sort();
  return Uint32Array.from(marked, (value) => value % 2 ** 26);
}

const listed = new Map();
async function filtered(query) {
  const name = JSON.stringify(query);
  if (!listed.has(name)) {
    const request = latest, checks = filterTests(query), passed = passing(checks);
    if (query.text.trim()) await keepReplies(passed, query.text.trim());
    if (request !== latest) return null;
    listed.set(name, { positions: ordered(passed, query.sort), counts: countsOf(query, checks, passed) });
    if (listed.size > 6) listed.delete(listed.keys().next().value);
  }
  return listed.get(name);
}

const describeRow = (at) => ({ id: String(at), ...bundle.cells[columns.cell[at]], sample: columns.sample[at], kind: bundle.kinds[columns.kind[at]], right: columns.right[at], turns: columns.turns[at] });
const stateFields = () => ({ version: 1, total: bundle.total, planned: bundle.planned, reading: false });

async function listRows(parameters) {
  const query = Object.fromEntries([...FIELDS, "sort"].map((name) => [name, (parameters.get(name) || "").slice(0, 300)]));
  const result = await filtered(query);
  if (!result) return null;
  const { positions, counts } = result;
  let start = Number(parameters.get("start") || 0), row = null;
  const at = await positionOf(parameters, "episode"), step = parameters.get("step");
  if (at !== undefined) {
    const index = at === null ? -1 : positions.indexOf(at);
    row = step ? nextFailure(positions, index, step) : index < 0 ? null : index;
    if (row !== null) start = Math.floor(row / content.rows) * content.rows;
  }
  const rows = Array.from(positions.subarray(start, start + content.rows), describeRow);
  return { ...stateFields(), matches: positions.length, start, row, rows, counts };
}

function nextFailure(positions, index, step) {
  const by = step === "next" ? 1 : -1;
  for (let row = index < 0 && by < 0 ? positions.length - 1 : index + by; row >= 0 && row < positions.length; row += by) if (columns.right[positions[row]] === 0) return row;
  return null;
}

/** Return the CRC-32 of a text's bytes. */
function checksum(text) {
  let value = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return (value ^ 0xffffffff) >>> 0;
}

/** Return the position of an episode that is named by its id or its key; null if there is none, undefined without a name. */
async function positionOf(parameters, name) {
  const id = parameters.get(`${name}_id`), key = parameters.get(name), run = parameters.get(`${name}_run`);
  if (id) return /^[0-9]{1,9}$/.test(id) && Number(id) < bundle.total ? Number(id) : null;
  if (!key) return undefined;
  const wanted = checksum(key), isRun = bundle.orders.run.includes(run);
  for (let at = columns.hash.indexOf(wanted); at >= 0; at = columns.hash.indexOf(wanted, at + 1)) {
    if ((!isRun || nameOf(at, "run") === run) && (await storedView(at)).episode.key === key) return at;
  }
  return null;
}

async function storedView(position) {
  const [number, row] = fileOf(position);
  const [view] = await readRows(`episodes-${padded(number)}.parquet`, bundle.episode_bytes[number], "view", row, row + 1);
  return JSON.parse(view);
}

/** Add an offset to the text numbers of an episode, whose texts follow those of another. */
function renumber(episode, by) {
  for (const turn of episode.turns) {
    for (const name of ["image", "reply", "prompt"]) if (turn[name] !== undefined) turn[name] += by;
    for (const name of ["options", "categories"]) if (turn[name]) turn[name] = turn[name].map((number) => number + by);
  }
  return episode;
}

async function loadPictures(episodes) {
  const wanted = new Set(episodes.flatMap((episode) => episode.turns.map((turn) => turn.picture)).filter((number) => typeof number === "number"));
  const pictures = {};
  await Promise.all([...wanted].map(async (number) => {
    const file = Math.floor(number / bundle.file_pictures), row = number % bundle.file_pictures;
    const [bytes] = await readRows(`pictures-${padded(file)}.parquet`, bundle.picture_bytes[file], "picture", row, row + 1);
    pictures[number] = `data:image/webp;base64,${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
  }));
  return pictures;
}

function neighborsOf(position) {
  const own = bundle.cells[columns.cell[position]];
  const same = cellFits([["scenario", own.scenario], ["protocol", own.protocol]]);
  const rows = [];
  for (let at = 0; at < bundle.total && rows.length < MOST_NEIGHBORS; at++) if (same[columns.cell[at]] && columns.sample[at] === columns.sample[position]) rows.push(at);
  return rows.filter((at) => at !== position).map(describeRow);
}

async function viewEpisodes(parameters) {
  const named = await Promise.all(["episode", "beside"].map((name) => positionOf(parameters, name)));
  const positions = named.filter((at) => at !== undefined);
  if (!positions.length || positions.includes(null)) return null;
  const views = await Promise.all(positions.map(storedView));
  const texts = views.flatMap((view) => view.texts);
  const episodes = views.map((view, n) => renumber(view.episode, n ? views[0].texts.length : 0));
  return { episodes, texts, pictures: await loadPictures(episodes), ids: positions.map(String), neighbors: neighborsOf(positions[0]) };
}

async function ask(path, query) {
  try {
    await loadColumns();
    const parameters = new URLSearchParams(query);
    return path === "rows" ? await listRows(parameters) : path === "episode" ? await viewEpisodes(parameters) : stateFields();
  } catch (problem) {
    const advice = location.protocol === "file:" ? "Serve this folder, for example with `python -m http.server --bind 127.0.0.1`, and open its address." : "A file of this folder could not be read.";
    byId("progress").textContent = advice;
    console.error(problem);
    return null;
  }
}
