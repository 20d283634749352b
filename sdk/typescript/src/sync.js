// Keeps a copy of the records. OpportunityClient.sync in index.d.ts documents the rules.

import { OpportunityError } from './error.js';
import { Code } from './parameters.js';

/** @import { Detail, Store, SyncResult, SyncState } from './index.js' */
/** @import { Filter, Opportunity } from './types.js' */
/**
 * @typedef {object} Source
 * @property {(filter: Filter) => import('./list.js').Pages<Opportunity>} walk
 * @property {(path: string, etag: string) => Promise<boolean>} unchanged
 * @property {(id: string) => Promise<Detail>} lookUp
 */

const DAY = 24 * 60 * 60 * 1000;
// Reach of an incremental walk into the past in milliseconds: reviews can be recorded some time after they were made.
const OVERLAP = 60 * 60 * 1000;
// Most walks of one sync through records that keep changing.
const MAX_WALKS = 3;

/**
 * @param {Source} source
 * @param {Store} store
 * @param {Date} now
 * @param {number} fullEvery
 * @returns {Promise<SyncResult>}
 */
export async function sync(source, store, now, fullEvery = DAY) {
  const state = await store.state();
  const full = state === null || now.getTime() - Date.parse(state.fullWalkAt) >= fullEvery;
  /** @type {Opportunity[]} */
  let put;
  /** @type {string[]} */
  let remove = [];
  if (full) {
    ({ put, remove } = await walkAll(source, await store.ids()));
  } else {
    put = [...(await settle(source, { checkedAfter: since(state) }, new Set())).records.values()];
  }
  const checkedAfter = latestReview(put, state?.checkedAfter ?? null);
  await store.apply({ put, remove, state: { checkedAfter, fullWalkAt: full ? now.toISOString() : state.fullWalkAt } });
  return { full, put: put.length, removed: remove.length };
}

/**
 * Reads all records and finds the ids to remove: those that are stored, or that an earlier walk saw, but not the last one.
 *
 * @param {Source} source
 * @param {string[]} stored
 */
async function walkAll(source, stored) {
  const ids = new Set(stored);
  const { settled, records } = await settle(source, {}, ids);
  const remove = [];
  for (const id of [...ids].sort()) {
    if (records.has(id)) {
      continue;
    }
    const found = settled ? undefined : await find(source, id); // an unsettled walk may have missed the record
    if (found) {
      records.set(id, found);
    } else {
      remove.push(id);
    }
  }
  return { put: [...records.values()], remove };
}

/**
 * Returns a record, or undefined if it does not exist.
 *
 * @param {Source} source
 * @param {string} id
 */
async function find(source, id) {
  try {
    return (await source.lookUp(id)).data;
  } catch (error) {
    if (error instanceof OpportunityError && error.code === Code.notFound) {
      return undefined;
    }
    throw error;
  }
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
