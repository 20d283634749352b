// Stores that keep a copy in files or in SQLite. index.d.ts documents them.

import { readFile, rename, writeFile } from 'node:fs/promises';

import { COLUMNS, SCHEMA } from './columns.js';

/** @import { Changes, Database, SyncState } from './index.js' */
/** @import { Opportunity } from './types.js' */

const SDK = 'typescript';

export class FileCopy {
  #path;
  /** @type {Promise<{sdk: string, state: SyncState | null, records: Record<string, Opportunity>}> | undefined} */
  #content;

  /** @param {string} path */
  constructor(path) {
    this.#path = path;
  }

  async state() {
    const { sdk, state } = await this.#load();
    return sdk === SDK ? state : null; // otherwise sync reads everything
  }

  async ids() {
    return Object.keys((await this.#load()).records);
  }

  /** @param {Changes} changes */
  async apply({ put, remove, state }) {
    const { records } = await this.#load();
    for (const record of put) records[record.id] = record;
    for (const id of remove) delete records[id];
    const content = { sdk: SDK, state, records };
    this.#content = Promise.resolve(content);
    await replace(`${this.#path}.copy.json`, JSON.stringify(content));
    const now = Date.now();
    const sorted = Object.entries(records).sort(([a], [b]) => (a < b ? -1 : 1)).map(([, record]) => current(record, now));
    const lines = this.#path.endsWith('.csv') ? csv(sorted) : sorted.map((record) => `${JSON.stringify(record)}\n`);
    await replace(this.#path, lines.join(''));
  }

  #load() {
    this.#content ??= readFile(`${this.#path}.copy.json`, 'utf8').then(JSON.parse, (error) => {
      if (error.code !== 'ENOENT') throw error;
      return { sdk: SDK, state: null, records: {} };
    });
    return this.#content;
  }
}

export class SqliteCopy {
  #database;

  /** @param {Database} database */
  constructor(database) {
    this.#database = database;
    database.exec(SCHEMA);
  }

  /** @returns {SyncState | null} */
  state() {
    const row = /** @type {any} */ (this.#database.prepare('SELECT state FROM sync_state WHERE sdk = ?').get(SDK));
    return row ? JSON.parse(row.state) : null;
  }

  ids() {
    return this.#database.prepare('SELECT id FROM records').all().map((/** @type {any} */ row) => String(row.id));
  }

  /** @param {Changes} changes */
  apply({ put, remove, state }) {
    const insert = this.#database.prepare('INSERT OR REPLACE INTO records (id, record) VALUES (?, ?)');
    const drop = this.#database.prepare('DELETE FROM records WHERE id = ?');
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      for (const record of put) insert.run(record.id, JSON.stringify(record));
      for (const id of remove) drop.run(id);
      this.#database.prepare('INSERT OR REPLACE INTO sync_state (sdk, state) VALUES (?, ?)').run(SDK, JSON.stringify(state));
      this.#database.exec('COMMIT');
    } catch (error) {
      this.#database.exec('ROLLBACK');
      throw error;
    }
  }
}

/**
 * Writes a new file and then renames it, so a crash leaves the old one.
 *
 * @param {string} path
 * @param {string} content
 */
async function replace(path, content) {
  await writeFile(`${path}.new`, content, { mode: 0o600 });
  await rename(`${path}.new`, path);
}

/**
 * Returns a record with the status that it has now: it becomes stale without a change.
 *
 * @param {Opportunity} record
 * @param {number} now
 */
function current(record, now) {
  const { status, freshUntil } = record.verification;
  const stale = status === 'verified' && freshUntil !== null && Date.parse(freshUntil) < now;
  return stale ? { ...record, verification: { ...record.verification, status: 'stale' } } : record;
}

/** @param {Opportunity[]} records */
function csv(records) {
  const rows = records.map((record) => COLUMNS.map(([, path]) => cell(value(record, /** @type {string} */ (path)))));
  return [COLUMNS.map(([name]) => name), ...rows].map((cells) => `${cells.join(',')}\r\n`);
}

/**
 * @param {any} record
 * @param {string} path
 */
function value(record, path) {
  return path.split('.').slice(1).reduce((object, name) => object?.[name], record);
}

// Matches a formula at the start of a cell, or after a semicolon, which separates cells in some countries. Before it there can be
// apostrophes, and characters that show nothing, which spreadsheets skip.
const invisible = '[\\x00-\\x20\\x7f-\\xa0\\xad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f'
  + '\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]';
const formula = new RegExp(`(^|;)('*${invisible}*[=+\\-@＝＋－＠])`, 'gu');

/**
 * Returns a value in CSV: nothing for null, and JSON for lists and objects.
 *
 * @param {unknown} value
 */
function cell(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = text.replace(/[\r\n\t]+/g, ' ').replace(formula, "$1'$2");
  return `"${safe.replaceAll('"', '""')}"`;
}
