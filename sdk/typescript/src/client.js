import { checkChanges, checkDetail, checkEvents, checkRecords } from './check.js';
import { items, pages } from './list.js';
import { parametersOfChangeFilter, parametersOfFilter, parametersOfHistoryFilter, parametersOfSearchFilter } from './parameters.js';
import { Requester } from './request.js';
import { sync } from './sync.js';

/** @import { CallOptions, ChangePage, ClientOptions, Detail, Store, SyncOptions } from './index.js' */
/** @import { ChangeFilter, VerificationEvent, Filter, HistoryFilter, Opportunity, RecordChange, SearchFilter } from './types.js' */

export const VERSION = '1.0.0';

const LIST = '/api/v1/opportunities';
const SEARCH = '/api/v1/search';
const CHANGES = '/api/v1/changes';
const PROOFS = '/.well-known/opportunity-history/log/proof/';

/** Calls the API with one key. index.d.ts documents the methods. */
export class OpportunityClient {
  #requester;
  #now;

  /** @param {ClientOptions} [options] */
  constructor(options = {}) {
    if ('document' in globalThis || 'importScripts' in globalThis) {
      throw new Error('opportunity: keys must not be used in a browser; call the API from a server');
    }
    const { url = process.env['OPPORTUNITY_URL'], key = process.env['OPPORTUNITY_KEY'], now = () => new Date() } = options;
    checkKey(key);
    const userAgent = `${options.userAgent ?? ''} opportunity-typescript/${VERSION}`.trim();
    if (!/^[ -~]*$/.test(userAgent)) {
      throw new Error('opportunity: invalid userAgent: it contains a line break or a character that is not ASCII');
    }
    this.#requester = new Requester(baseOf(url), key, userAgent, now, options);
    this.#now = now;
  }

  /**
   * @param {Filter} [filter]
   * @param {CallOptions} [options]
   */
  opportunities(filter, options) {
    return items(this.opportunityPages(filter, options));
  }

  /**
   * @param {Filter} [filter]
   * @param {CallOptions} [options]
   * @returns {import('./list.js').Pages<Opportunity>}
   */
  opportunityPages(filter = {}, options = {}) {
    return pages(this.#requester, LIST, parametersOfFilter, filter, { ...options, check: checkRecords });
  }

  /**
   * @param {SearchFilter} [filter]
   * @param {CallOptions} [options]
   */
  search(filter, options) {
    return items(this.searchPages(filter, options));
  }

  /**
   * @param {SearchFilter} [filter]
   * @param {CallOptions} [options]
   * @returns {import('./list.js').Pages<Opportunity>}
   */
  searchPages(filter = {}, options = {}) {
    return pages(this.#requester, SEARCH, parametersOfSearchFilter, filter, { ...options, check: checkRecords });
  }

  /**
   * @param {string} id
   * @param {CallOptions} [options]
   * @returns {Promise<Detail>}
   */
  async opportunity(id, { signal } = {}) {
    const { value, response } = await this.#requester.get({ path: recordPath(id), check: checkDetail, signal });
    return { ...value, response };
  }

  /**
   * @param {string} id
   * @param {HistoryFilter} [filter]
   * @param {CallOptions} [options]
   */
  history(id, filter, options) {
    return items(this.historyPages(id, filter, options));
  }

  /**
   * @param {string} id
   * @param {HistoryFilter} [filter]
   * @param {CallOptions} [options]
   * @returns {import('./list.js').Pages<VerificationEvent>}
   */
  historyPages(id, filter = {}, options = {}) {
    return pages(this.#requester, `${recordPath(id)}/history`, parametersOfHistoryFilter, filter, { ...options, check: checkEvents });
  }

  /**
   * @param {string} id
   * @param {CallOptions} [options]
   * @returns {Promise<string>}
   */
  async eventProof(id, { signal } = {}) {
    return (await this.#requester.get({ path: PROOFS + encodeURIComponent(id), proof: true, fresh: true, signal })).value;
  }

  /**
   * @param {ChangeFilter} [filter]
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<RecordChange, void, undefined>}
   */
  async *changes(filter, options) {
    for await (const page of this.changePages(filter, options)) {
      yield* page.data;
    }
  }

  /**
   * @param {ChangeFilter} [filter]
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<ChangePage, void, undefined>}
   */
  changePages(filter = {}, options = {}) {
    return pages(this.#requester, CHANGES, parametersOfChangeFilter, filter, { ...options, check: checkChanges });
  }

  /**
   * @param {Store} store
   * @param {SyncOptions} [options]
   */
  sync(store, options = {}) {
    const walk = (/** @type {Filter} */ filter) =>
      pages(this.#requester, LIST, parametersOfFilter, filter, { ...options, check: checkRecords, fresh: true });
    const unchanged = async (/** @type {string} */ path, /** @type {string} */ etag) =>
      (await this.#requester.get({ path, check: checkRecords, etag, fresh: true, signal: options.signal })).response.notModified;
    const lookUp = (/** @type {string} */ id) => this.opportunity(id, options);
    const changes = (/** @type {string} */ after) =>
      pages(this.#requester, CHANGES, parametersOfChangeFilter, { after }, { ...options, check: checkChanges, fresh: true });
    return sync({ walk, unchanged, lookUp, changes }, store, this.#now(), options.fullEveryMs);
  }
}

/** @param {string} id */
function recordPath(id) {
  return `${LIST}/${encodeURIComponent(id)}`;
}

/**
 * @param {string | undefined} address
 * @returns {string}
 */
function baseOf(address) {
  if (!address) {
    throw new Error('opportunity: address missing: set OPPORTUNITY_URL or pass url');
  }
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || /[?#]/.test(address)) {
    throw new Error('opportunity: invalid address: expected a scheme, a host and, if any, a path, such as https://api.example.com');
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/**
 * Rejects what cannot be sent in a header, such as the newline at the end of a file.
 *
 * @param {string | undefined} key
 * @returns {asserts key is string}
 */
function checkKey(key) {
  if (!key) {
    throw new Error('opportunity: key missing: set OPPORTUNITY_KEY or pass key');
  }
  if (!/^[!-~]+$/.test(key)) {
    throw new Error('opportunity: invalid key: it contains a space, a line break or a character that is not ASCII');
  }
}
