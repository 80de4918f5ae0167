// The columns of all episodes, which are filtered here; an episode is its position in them.
const TYPES = { cell: Uint32Array, sample: Int32Array, kind: Uint8Array, right: Int8Array, turns: Uint16Array };
const NAMES = ["run", "model", "scenario", "condition", "protocol"];
const compressors = { ZSTD: (bytes, length) => hyparquet.decompress(bytes, new Uint8Array(length)) };
let about = { version: null, total: 0, planned: 0, reading: true, cells: [], kinds: [], outcomes: {}, orders: {} };
let columns = { at: new Uint32Array() };

/** Load the columns if there is a newer version; return true then. */
async function loadColumns() {
  const newest = await source.about();
  if (!newest) return false;
  if (newest.version === about.version) { about.reading = newest.reading; return false; }
  const file = await source.list(newest);
  if (!file) return false;
  const loaded = Object.fromEntries(Object.entries(TYPES).map(([name, type]) => [name, new type(newest.total)]));
  await hyparquet.parquetRead({ file, compressors, onChunk: ({ columnName, columnData, rowStart }) => loaded[columnName].set(columnData, rowStart) });
  [about, columns] = [newest, { ...loaded, at: new Uint32Array(newest.total).map((_, at) => at) }];
  return true;
}

const cellOf = (at) => about.cells[columns.cell[at]];

/** Return a function that says whether an episode passes all filters of a query except `without`; the text is not among them. */
function filterOf(query, without = "") {
  const wanted = (name) => (name === without ? "" : query[name]);
  const cells = about.cells.map((cell) => NAMES.every((name) => !wanted(name) || cell[name] === wanted(name)));
  const kind = wanted("kind") ? about.kinds.indexOf(wanted("kind")) : null;
  const right = wanted("outcome") ? about.outcomes[wanted("outcome")] ?? 9 : null;
  const sample = wanted("sample") ? (/^[0-9]{1,9}$/.test(query.sample) ? Number(query.sample) : -2) : null;
  return (at) => cells[columns.cell[at]] && (kind === null || columns.kind[at] === kind) && (right === null || columns.right[at] === right)
    && (sample === null || columns.sample[at] === sample);
}

/** Return per filter its values with their numbers of episodes. */
function countAll(positions) {
  const cells = new Uint32Array(about.cells.length), kinds = new Uint32Array(about.kinds.length), rights = new Uint32Array(3);
  for (const at of positions) { cells[columns.cell[at]]++; kinds[columns.kind[at]]++; rights[columns.right[at] + 1]++; }
  const counted = { kind: about.kinds.map((name, n) => [name, kinds[n]]), outcome: Object.entries(about.outcomes).map(([name, right]) => [name, rights[right + 1]]) };
  for (const name of NAMES) {
    const totals = new Map(about.orders[name].map((value) => [value, 0]));
    about.cells.forEach((cell, n) => totals.set(cell[name], totals.get(cell[name]) + cells[n]));
    counted[name] = [...totals];
  }
  return counted;
}

/** Return the counts of each filter's values under the other filters; with a text, under all. */
function countsOf(query, positions) {
  const counted = countAll(positions);
  if (!query.text) for (const name of Object.keys(counted)) if (query[name]) counted[name] = countAll(columns.at.filter(filterOf(query, name)))[name];
  return Object.fromEntries(Object.entries(counted).map(([name, pairs]) => [name, pairs.filter(([, count]) => count)]));
}

/** Return the positions and counts of a query; null if the server has a newer version. */
async function findEpisodes(query) {
  const found = query.text && source.found ? await source.found(about, query.text) : columns.at;
  if (!found) return null;
  const positions = found.filter(filterOf(query));
  return { positions, counts: countsOf(query, positions) };
}

/** Return the name of an episode in the address: `MODEL/SCENARIO/CONDITION/PROTOCOL/SAMPLE`. */
const nameOf = (at) => [...NAMES.slice(1).map((name) => cellOf(at)[name]), columns.sample[at]].join("/");

/** Return the position of an episode by its name, in a run or, without a known one, in the first that has it; -1 if none has. */
function positionOf(name, run) {
  const cut = name.lastIndexOf("/"), cell = name.slice(0, cut), sample = Number(name.slice(cut + 1)), isKnown = about.orders.run.includes(run);
  const inCell = about.cells.map((own) => NAMES.slice(1).map((part) => own[part]).join("/") === cell && (!isKnown || own.run === run));
  return columns.at.findIndex((at) => columns.sample[at] === sample && inCell[columns.cell[at]]);
}

/** Return the first failure of a model that is no baseline, else its first episode, else the first of all. */
function firstToShow(positions) {
  const real = positions.filter((at) => !cellOf(at).baseline);
  return real.find((at) => columns.right[at] === 0) ?? real[0] ?? positions[0];
}

/** Return the episodes of the same sample, of any model, condition and run. */
function neighborsOf(position) {
  const own = cellOf(position), isSame = (at) => at !== position && columns.sample[at] === columns.sample[position];
  const cells = about.cells.map((cell) => cell.scenario === own.scenario && cell.protocol === own.protocol);
  return [...columns.at.filter((at) => isSame(at) && cells[columns.cell[at]]).subarray(0, 1000)];
}
