// Keeps a copy of the records. OpportunityClient.sync in index.d.ts documents the rules.

import { OpportunityError } from './error.js';
import { Code } from './parameters.js';

/** @import { ChangePage, Detail, Store, SyncResult, SyncState } from './index.js' */
/** @import { Filter, Opportunity } from './types.js' */
/**
 * @typedef {object} Source
 * @property {(filter: Filter) => import('./list.js').Pages<Opportunity>} walk
 * @property {(path: string, etag: string) => Promise<boolean>} unchanged
 * @property {(id: string) => Promise<Detail>} lookUp
 * @property {(cursor: string) => AsyncGenerator<ChangePage, void, undefined>} changes
 */
/** @typedef {{put: Opportunity[], remove: string[], cursor: string | null}} Found */

const DAY = 24 * 60 * 60 * 1000;
const PAGE_SIZE = 100;
// Reach of an incremental walk into the past in milliseconds: reviews can be recorded some time after they were made.
const OVERLAP = 60 * 60 * 1000;
// Most walks of one sync through records that keep changing.
const MAX_WALKS = 3;

/**
 * @param {Source} source
 * @param {Store} store
 * @param {Date} now
 * @param {number | undefined} fullEvery
 * @returns {Promise<SyncResult>}
 */
export async function sync(source, store, now, fullEvery) {
  const state = await store.state();
  const every = fullEvery ?? (state?.cursor ? Infinity : DAY);
  /** @type {Found | null} */
  let found = null;
  if (state !== null && now.getTime() - Date.parse(state.fullWalkAt) < every) {
    found = state.cursor ? await follow(source, state.cursor, store) : await reviewed(source, state);
  }
  const full = found === null;
  const { put, remove, cursor } = found ?? (await all(source, store));
  const checkedAfter = latestReview(put, state?.checkedAfter ?? null);
  const fullWalkAt = full || state === null ? now.toISOString() : state.fullWalkAt;
  await store.apply({ put, remove, state: { checkedAfter, fullWalkAt, cursor } });
  return { full, put: put.length, removed: remove.length };
}

/**
 * Reads the records that were reviewed since.
 *
 * @param {Source} source
 * @param {SyncState} state
 * @returns {Promise<Found>}
 */
async function reviewed(source, state) {
  const { records } = await settle(source, { checkedAfter: since(state) }, new Set());
  return { put: [...records.values()], remove: [], cursor: null };
}

/**
 * Returns the current cursor, or null if the account cannot read changes.
 *
 * @param {Source} source
 */
async function start(source) {
  try {
    for await (const page of source.changes('now')) {
      return page.pagination.cursor;
    }
  } catch (error) {
    if (!hasCode(error, Code.subscriptionRequired)) {
      throw error;
    }
  }
  return null;
}

/**
 * Reads the changes after a cursor, and the changed records: each one or, if that takes fewer calls, all pages. It returns null if a walk
 * through all records is needed instead, because the cursor expired or the account can no longer read changes.
 *
 * @param {Source} source
 * @param {string} cursor
 * @param {Store} store
 * @returns {Promise<Found | null>}
 */
async function follow(source, cursor, store) {
  /** @type {Map<string, boolean>} */
  const changed = new Map(); // whether the record is public, by id
  let limit = PAGE_SIZE;
  try {
    for await (const page of source.changes(cursor)) {
      page.data.forEach(({ id, change }) => changed.set(id, change !== 'withdrawn'));
      ({ cursor, limit } = page.pagination);
    }
  } catch (error) {
    if (hasCode(error, Code.cursorExpired) || hasCode(error, Code.subscriptionRequired)) {
      return null;
    }
    throw error;
  }
  const ids = [...changed.keys()].sort();
  const wanted = new Set(ids.filter((id) => changed.get(id)));
  const remove = ids.filter((id) => !wanted.has(id));
  /** @type {Map<string, Opportunity>} */
  const records = new Map();
  if (wanted.size > Math.ceil((await store.ids()).length / limit)) {
    for await (const { data } of source.walk({})) {
      data.filter(({ id }) => wanted.has(id)).forEach((record) => records.set(record.id, record));
    }
  }
  remove.push(...(await lookUp(source, wanted, records)));
  return { put: [...records.values()], remove, cursor };
}

/**
 * Reads all records and finds the ids to remove: those that are stored, or that an earlier walk saw, but not the last one.
 *
 * @param {Source} source
 * @param {Store} store
 * @returns {Promise<Found>}
 */
async function all(source, store) {
  const cursor = await start(source); // before the walk, so what changes meanwhile is read again
  const ids = new Set(await store.ids());
  const { settled, records } = await settle(source, {}, ids);
  const remove = settled
    ? [...ids].filter((id) => !records.has(id)).sort()
    : await lookUp(source, ids, records); // an unsettled walk may have missed records
  return { put: [...records.values()], remove, cursor };
}

/**
 * Reads the records that are missing, and returns the ids of those that do not exist.
 *
 * @param {Source} source
 * @param {Set<string>} ids
 * @param {Map<string, Opportunity>} records
 */
async function lookUp(source, ids, records) {
  const gone = [];
  for (const id of [...ids].filter((id) => !records.has(id)).sort()) {
    try {
      records.set(id, (await source.lookUp(id)).data);
    } catch (error) {
      if (!hasCode(error, Code.notFound)) {
        throw error;
      }
      gone.push(id);
    }
  }
  return gone;
}

/**
 * @param {unknown} error
 * @param {string} code
 */
function hasCode(error, code) {
  return error instanceof OpportunityError && error.code === code;
}

/**
 * Walks until the records did not change during the walk. It adds every id that any walk saw to ids.
 *
 * @param {Source} source
 * @param {Filter} filter
 * @param {Set<string>} ids
 */
async function settle(source, filter, ids) {
  /** @type {Map<string, Opportunity>} */
  let records = new Map();
  for (let walk = 0; walk < MAX_WALKS; walk++) {
    records = new Map(); // a record that moved appears twice; the later copy is newer
    let first;
    for await (const page of source.walk(filter)) {
      first ??= page;
      for (const record of page.data) {
        records.set(record.id, record);
        ids.add(record.id);
      }
    }
    // The entity tag of the first page depends on all records.
    if (!first?.pagination.hasMore || (await source.unchanged(first.path, first.etag))) {
      return { settled: true, records };
    }
  }
  return { settled: false, records };
}

/**
 * Returns the start of an incremental walk. A copy without any review reads all reviewed records.
 *
 * @param {SyncState} state
 */
function since({ checkedAfter }) {
  if (checkedAfter === null) {
    return '1970-01-01';
  }
  return new Date(Date.parse(checkedAfter) - OVERLAP).toISOString().replace(/\.\d+Z$/, 'Z');
}

/**
 * @param {Opportunity[]} records
 * @param {string | null} latest
 */
function latestReview(records, latest) {
  for (const { verification } of records) {
    const at = verification.lastCheckedAt;
    if (at !== null && (latest === null || Date.parse(at) > Date.parse(latest))) {
      latest = at;
    }
  }
  return latest;
}
