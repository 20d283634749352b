// The public interface of this package. types.d.ts is generated; test/declarations.mts compares the rest with the code.

import type {
  ChangeFilter,
  CursorPagination,
  VerificationEvent,
  Filter,
  HistoryFilter,
  Meta,
  Opportunity,
  Pagination,
  RecordChange,
  SearchFilter,
} from './types.js';

export type * from './types.js';
export { Code } from './parameters.js';

/** The version of this SDK. */
export const VERSION: string;

/** Calls the API with one key. Use it on servers only: the constructor throws in a browser. */
export class OpportunityClient {
  /** Throws if the address or the key is missing or malformed. The error never contains the key. */
  constructor(options?: ClientOptions);

  /**
   * Iterates over the records that match the filter, over all pages. Each id appears once. An error ends the iteration.
   */
  opportunities(filter?: Filter, options?: CallOptions): AsyncGenerator<Opportunity, void, undefined>;

  /**
   * Iterates over the pages of the records that match the filter. If records change during the iteration, a record can appear on two
   * pages or on none.
   */
  opportunityPages(filter?: Filter, options?: CallOptions): AsyncGenerator<Page<Opportunity>, void, undefined>;

  /** Iterates over the records that match the filter of the search, as `opportunities` does. */
  search(filter?: SearchFilter, options?: CallOptions): AsyncGenerator<Opportunity, void, undefined>;

  /** Iterates over the pages of the search, as `opportunityPages` does. */
  searchPages(filter?: SearchFilter, options?: CallOptions): AsyncGenerator<Page<Opportunity>, void, undefined>;

  /** Returns one record. A record that does not exist, or that the account cannot read, is an error with `Code.notFound`. */
  opportunity(id: string, options?: CallOptions): Promise<Detail>;

  /** Iterates over the verification history of a record, newest first, over all pages. Each event appears once. */
  history(id: string, filter?: HistoryFilter, options?: CallOptions): AsyncGenerator<VerificationEvent, void, undefined>;

  /** Iterates over the pages of a record's verification history, newest first. */
  historyPages(id: string, filter?: HistoryFilter, options?: CallOptions): AsyncGenerator<Page<VerificationEvent>, void, undefined>;

  /**
   * Returns the proof of an event, for `verifyEvent`. It is public: the request has no key and is not charged. An event of a record that is
   * not public is an error with `Code.notFound`. So is an event that was recorded within seconds: no checkpoint
   * covers it yet.
   */
  eventProof(id: string, options?: CallOptions): Promise<string>;

  /** Iterates over the changes of records after a cursor, oldest first, over all pages. */
  changes(filter?: ChangeFilter, options?: CallOptions): AsyncGenerator<RecordChange, void, undefined>;

  /**
   * Iterates over the pages of the changes of records after a cursor, oldest first. `pagination.cursor` of the last page is the cursor to
   * continue with.
   */
  changePages(filter?: ChangeFilter, options?: CallOptions): AsyncGenerator<ChangePage, void, undefined>;

  /**
   * Updates a copy of all records that the account can read. The first call reads everything. Later calls read the changes since, and the
   * changed records. If the account cannot read changes, they read the records reviewed since, and everything again once `fullEveryMs` has
   * passed. The store changes once, at the end; after an error the copy is as before.
   *
   * If records change during the walk through the pages, it walks again, up to three times. If they never stop changing, it looks up
   * each record that the last walk did not see before it removes it.
   */
  sync(store: Store, options?: SyncOptions): Promise<SyncResult>;
}

/**
 * Reports whether the list and the search return a stored record for a filter at a time, by default now: with the province rule and the facts
 * of three values, and `verified` computed from `freshUntil`. `page` and `pageSize` have no effect. Throws a TypeError for a filter that the
 * API rejects.
 */
export function matches(record: Opportunity, filter?: SearchFilter, now?: Date): boolean;

export interface ClientOptions {
  /**
   * The address of the service, such as https://api.example.com or https://example.com/opportunities. The default is the environment
   * variable OPPORTUNITY_URL.
   */
  url?: string | undefined;
  /** The API key. The default is the environment variable OPPORTUNITY_KEY. */
  key?: string | undefined;
  /** Bounds each attempt of a call, in milliseconds. The default is 30,000. */
  timeoutMs?: number | undefined;
  /** Bounds the time that one request waits between attempts, in milliseconds; 0 turns retries off. The default is 90,000. */
  retryBudgetMs?: number | undefined;
  /** Makes calls conditional: the client sends the entity tags of cached responses. There is no cache by default. */
  cache?: Cache | undefined;
  /** Names your program, such as `prices/1.2`, in the User-Agent header. The name and version of this SDK follow. */
  userAgent?: string | undefined;
  /** Is called before each wait for another attempt, for example to log it. What it throws ends the call. */
  onRetry?: ((retry: Retry) => void) | undefined;
  /** Sends the requests, for example through a proxy. The default is the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
  /** Replaces the wait between attempts, for tests. */
  sleep?: ((ms: number, signal?: AbortSignal) => Promise<unknown>) | undefined;
  /** Replaces the clock, for tests. */
  now?: (() => Date) | undefined;
}

/** A failed attempt and the wait before the next one. */
export interface Retry {
  /** Attempts so far, 1 after the first. */
  attempt: number;
  /** Milliseconds until the next attempt. */
  waitMs: number;
  /** Why the attempt failed. */
  error: OpportunityError;
}

export interface CallOptions {
  /** Ends the call and its waits. The call then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** A page of a list. */
export interface Page<T> {
  data: T[];
  pagination: Pagination;
  meta: Meta;
  response: ResponseInfo;
}

/** A page of changes. */
export interface ChangePage {
  data: RecordChange[];
  pagination: CursorPagination;
  meta: Meta;
  response: ResponseInfo;
}

/** One record with the time and tier of the response. */
export interface Detail {
  data: Opportunity;
  meta: Meta;
  response: ResponseInfo;
}

/** The HTTP response behind a result. */
export interface ResponseInfo {
  requestId: string;
  /** The daily quota after this call. */
  rateLimit: RateLimit;
  /** The quota of 60 seconds after this call. */
  minuteLimit: RateLimit;
  /**
   * Set if the API confirmed a cached response with a 304, which is charged like a 200. `meta.generatedAt` is then the time of the
   * cached response.
   */
  notModified: boolean;
}

/** A quota of the account. */
export interface RateLimit {
  /** Calls in a day, or in any 60 seconds. */
  limit: number;
  /** Calls left. */
  remaining: number;
  /** When more calls are available: for the day, the next midnight UTC. */
  reset: Date;
}

/** A failed call. Its `message` has the code, the API's words, the status and the request id. */
export class OpportunityError extends Error {
  constructor(details: Partial<Omit<OpportunityError, 'name' | 'stack' | 'detail'>> & { code: string; message: string });
  /** What was wrong, in the API's words. For people; the wording may change. */
  readonly detail: string;
  /** HTTP status, or 0 if there was no response. */
  readonly status: number;
  /**
   * A value of `Code`; `connection_failed` if there was no complete response, with the cause in `cause`; or `invalid_response` if the
   * response is not one of the API. A later version of the API may add codes.
   */
  readonly code: string;
  /** X-Request-Id; include it when you report a problem. */
  readonly requestId: string;
  /** Seconds after which the same call can succeed, or 0 if not stated. */
  readonly retryAfter: number;
  /** URL of the section that explains the code. */
  readonly documentation: string;
}

/** The keys that a reader trusts, each as name+id+base64 (C2SP signed-note). */
export interface ProofKeys {
  /** Keys of the log: one of them must have signed the checkpoint. */
  log: readonly string[];
  /** Ed25519 keys of witnesses. */
  witnesses?: readonly string[] | undefined;
  /** Witnesses that must have cosigned; by default all. */
  quorum?: number | undefined;
}

/** A verified proof: the log has the event, unchanged since the earliest time of a witness. */
export interface Proof {
  /** The event as it was recorded: members that the API has gained since are missing. */
  event: VerificationEvent;
  /** Name of the log. */
  origin: string;
  /** Events that the checkpoint covers. */
  size: number;
  /** Index of the event. */
  index: number;
  /** When the log says that it recorded the event. */
  recordedAt: string;
  /** The witnesses that have cosigned, in the order of their keys, and when. */
  witnesses: { name: string; at: Date }[];
}

/**
 * Verifies the proof of an event (C2SP tlog-proof), without a network, and returns the event that the proof has. The promise is rejected with a
 * `ProofError` unless the event is proved.
 */
export function verifyEvent(proof: string, keys: ProofKeys): Promise<Proof>;

/** An event that is not proved. */
export class ProofError extends Error {
  constructor(reason: ProofReason, message: string);
  readonly reason: ProofReason;
}

/**
 * Why an event is not proved: a key or a quorum, or the proof is malformed; no given key of the log has signed; a signature of a given key is
 * not valid; too few witnesses have cosigned; the event is not the recorded one; or the log has recorded something that is not an event.
 */
export type ProofReason =
  | 'malformed_key'
  | 'malformed_proof'
  | 'unknown_log'
  | 'invalid_signature'
  | 'not_witnessed'
  | 'not_included'
  | 'malformed_event';

/** Stores responses by URL. A cache belongs to one account, because other accounts may see other records. */
export interface Cache {
  get(url: string): CacheEntry | undefined | Promise<CacheEntry | undefined>;
  put(url: string, entry: CacheEntry): void | Promise<void>;
}

export interface CacheEntry {
  etag: string;
  body: string;
}

/** A cache in memory. When it is full, it drops the oldest entry. */
export class MemoryCache implements Cache {
  /** Creates a cache for up to `size` responses. */
  constructor(size: number);
  get(url: string): CacheEntry | undefined;
  put(url: string, entry: CacheEntry): void;
}

/** A copy of the records. The caller of `sync` implements it. */
export interface Store {
  /** Returns the state that the last `apply` saved, or null. */
  state(): Promise<SyncState | null> | SyncState | null;
  /** Returns the ids of all stored records. */
  ids(): Promise<string[]> | string[];
  /** Stores and removes records and saves the state, in one transaction. */
  apply(changes: Changes): Promise<void> | void;
}

/**
 * A store that writes all records to a file: CSV if its name ends in .csv, otherwise one JSON object on each line. A file beside it, whose
 * name ends in .copy.json, has the records and the state.
 *
 * The file has the status of each record at the time of the last `sync`. In CSV, a text that a spreadsheet would take for a formula begins
 * with an apostrophe.
 */
export class FileCopy implements Store {
  /** The file may not exist yet. */
  constructor(path: string);
  state(): Promise<SyncState | null>;
  ids(): Promise<string[]>;
  apply(changes: Changes): Promise<void>;
}

/** A store in an SQLite database. Its view `opportunities` has a column for each value. */
export class SqliteCopy implements Store {
  /** The database is a `DatabaseSync` of `node:sqlite`, or one of better-sqlite3. */
  constructor(database: Database);
  state(): SyncState | null;
  ids(): string[];
  apply(changes: Changes): void;
}

/** The part of an SQLite driver that `SqliteCopy` uses. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): {
    run(...values: string[]): unknown;
    get(...values: string[]): unknown;
    all(...values: string[]): unknown[];
  };
}

/** The progress of a copy. */
export interface SyncState {
  /** The time of the latest review in the copy, or null if it contains none. */
  checkedAfter: string | null;
  /** The time of the last walk through all records. */
  fullWalkAt: string;
  /** The position of the copy among the changes, or null if the account cannot read them. States of earlier versions lack it. */
  cursor?: string | null;
}

/** The result of one `sync`. */
export interface Changes {
  /** Records to insert or replace. */
  put: Opportunity[];
  /** Ids of records to delete. Some may not be stored. */
  remove: string[];
  state: SyncState;
}

export interface SyncOptions extends CallOptions {
  /**
   * The time between walks through all records, in milliseconds. The default is a day for an account that cannot read changes: only such
   * a walk sees removals and changes other than reviews, such as link checks and edits. With changes, no further walk is needed.
   */
  fullEveryMs?: number | undefined;
}

/** What one `sync` did. */
export interface SyncResult {
  /** All records were read. */
  full: boolean;
  /** Records stored. */
  put: number;
  /** Records removed. */
  removed: number;
}
