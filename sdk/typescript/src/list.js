// Iterates over lists.

import { OpportunityError } from './error.js';
import { unknownFilter } from './match.js';

/** @import { Page } from './index.js' */
/** @template T @typedef {AsyncGenerator<Page<T> & {etag: string, path: string}, void, undefined>} Pages */

// The default page size. The API lowers it to the maximum of the tier, so a list takes as few calls as possible.
const MAX_PAGE_SIZE = 100;

/**
 * Iterates over the items of pages and skips those whose id appeared before.
 *
 * @template {{id: string}} T
 * @param {AsyncGenerator<Page<T>, void, undefined>} pages
 * @returns {AsyncGenerator<T, void, undefined>}
 */
export async function* items(pages) {
  const seen = new Set();
  for await (const page of pages) {
    for (const item of page.data) {
      if (!seen.has(item.id)) {
        seen.add(item.id);
        yield item;
      }
    }
  }
}

/**
 * Iterates over the pages of a list. It follows only the query of pagination.next, so the key never leaves the address of the client.
 *
 * @param {import('./request.js').Requester} requester
 * @param {string} list path of the list
 * @param {Readonly<Record<string, string>>} parameters the query parameter of each property of filter
 * @param {object} filter
 * @param {{check: (body: any) => string, signal?: AbortSignal | undefined, fresh?: boolean}} options
 * @returns {AsyncGenerator<any, void, undefined>}
 */
export async function* pages(requester, list, parameters, filter, { check, signal, fresh = false }) {
  let path = `${list}?${query(parameters, filter)}`;
  for (;;) {
    const { value, etag, response } = await requester.get({ path, check, fresh, signal });
    const page = { ...value, response };
    Object.defineProperties(page, { etag: { value: etag }, path: { value: path } }); // for sync; not part of the data
    yield page;
    const { hasMore, next } = page.pagination;
    if (!hasMore) {
      return;
    }
    path = list + following(next, path);
  }
}

/**
 * Returns the query of the address of the page after the one at path. The path of the address must be that of the list, behind that of any
 * proxy.
 *
 * @param {string} next
 * @param {string} path
 */
function following(next, path) {
  const url = URL.canParse(next, 'http://base') ? new URL(next, 'http://base') : undefined;
  const [list, query] = path.split('?');
  if (!url?.pathname.endsWith(`${list}`) || url.search === `?${query}`) {
    throw new OpportunityError({ code: 'invalid_response', message: `pagination.next does not lead to another page: ${next}` });
  }
  return url.search;
}

/**
 * @param {Readonly<Record<string, string>>} parameters
 * @param {object} filter
 */
function query(parameters, filter) {
  const query = new URLSearchParams();
  /** @type {Record<string, unknown>} */
  const all = { pageSize: MAX_PAGE_SIZE, ...filter };
  for (const [property, value] of Object.entries(all)) {
    const parameter = parameters[property];
    if (parameter === undefined) {
      throw unknownFilter(property, parameters);
    }
    if (value !== undefined) {
      query.set(parameter, value instanceof Date ? value.toISOString() : String(value));
    }
  }
  return query;
}
