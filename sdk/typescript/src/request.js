// Sends requests: attempts, retries, conditional requests.

import { setTimeout as delay } from 'node:timers/promises';

import { OpportunityError, responseError } from './error.js';
import { Code } from './parameters.js';
import { PROOF_VERSION } from './proof.js';

/**
 * A GET of the API. `check` returns what is wrong with the body of a 200. `proof` is set for a proof of the log, which is public and text.
 *
 * @typedef {{path: string, check?: (body: any) => string, etag?: string, fresh?: boolean, proof?: boolean, signal?: AbortSignal | undefined}} Request
 */
/** @typedef {{status: number, headers: Headers, requestId: string, body: string}} Reply */
/** @typedef {{value: any, etag: string, response: import('./index.js').ResponseInfo}} Result */

// Backoff between attempts in milliseconds. Each wait is a random time between half of the step and the step; the steps double.
const FIRST_STEP = 500;
const LAST_STEP = 30_000;
// Attempts to open a connection: an address that accepts none is most likely wrong.
const MAX_CONNECTS = 2;
// Bounds of times in seconds: the end of the year 9999, and of delays (RFC 9111 section 1.2.2).
const LAST_SECOND = 253_402_300_799;
const MAX_DELAY = 2 ** 31;

/** Sends GET requests to one address with one key. */
export class Requester {
  #base;
  #key;
  #userAgent;
  #timeoutMs;
  #retryBudgetMs;
  #cache;
  #onRetry;
  #fetch;
  #sleep;
  #now;

  /**
   * @param {string} base
   * @param {string} key
   * @param {string} userAgent
   * @param {() => Date} now
   * @param {import('./index.js').ClientOptions} options
   */
  constructor(base, key, userAgent, now, options) {
    const { timeoutMs = 30_000, retryBudgetMs = 90_000, cache, onRetry, sleep } = options;
    this.#base = base;
    this.#key = key;
    this.#userAgent = userAgent;
    this.#timeoutMs = timeoutMs;
    this.#retryBudgetMs = retryBudgetMs;
    this.#cache = cache;
    this.#onRetry = onRetry;
    this.#fetch = options.fetch;
    this.#now = now;
    this.#sleep = sleep ?? ((ms, signal) => delay(ms, undefined, signal && { signal }));
  }

  /**
   * Sends a request until it succeeds, cannot succeed, or the retry budget is used up.
   *
   * @param {Request} request
   * @returns {Promise<Result>}
   */
  async get(request) {
    let waited = 0;
    let step = FIRST_STEP;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(request);
      } catch (error) {
        if (!(error instanceof OpportunityError)) {
          throw error;
        }
        const wait = retryIn(error, step);
        const lost = attempt >= MAX_CONNECTS && isUnreachable(error.cause);
        if (wait === undefined || waited + wait > this.#retryBudgetMs || lost) {
          throw error;
        }
        this.#onRetry?.({ attempt, waitMs: wait, error });
        await this.#wait(wait, request.signal);
        waited += wait;
        step = Math.min(2 * step, LAST_STEP);
      }
    }
  }

  /**
   * @param {number} ms
   * @param {AbortSignal | undefined} signal
   */
  async #wait(ms, signal) {
    try {
      await this.#sleep(ms, signal);
    } finally {
      signal?.throwIfAborted(); // the signal's own reason
    }
  }

  /**
   * Sends a request once.
   *
   * @param {Request} request
   * @returns {Promise<Result>}
   */
  async #attempt(request) {
    const url = this.#base + request.path;
    const cache = request.fresh ? undefined : this.#cache;
    const cached = await cache?.get(url);
    const tag = request.etag ?? cached?.etag;
    const reply = await this.#send(url, tag, request);
    const notModified = reply.status === 304;
    const result = { etag: reply.headers.get('etag') ?? '', response: describe(reply, this.#now()), value: undefined };
    if (notModified && request.etag !== undefined) {
      return result;
    }
    if (notModified && cached) {
      reply.body = cached.body;
    } else if (reply.status !== 200) {
      throw responseError(reply, retryAfter(reply.headers.get('retry-after') ?? '', this.#now()));
    }
    if (request.proof) {
      if (!reply.body.startsWith(`${PROOF_VERSION}\n`)) {
        throw new OpportunityError({ ...reply, code: 'invalid_response', message: 'the response is no proof' });
      }
      return { ...result, value: reply.body };
    }
    try {
      result.value = JSON.parse(reply.body);
    } catch (cause) {
      throw new OpportunityError({ ...reply, code: 'invalid_response', message: 'the response is not JSON', cause });
    }
    const wrong = request.check?.(result.value);
    if (wrong) {
      throw new OpportunityError({ ...reply, code: 'invalid_response', message: `the response is not one of the API: ${wrong}` });
    }
    if (result.etag && !notModified) {
      await cache?.put(url, { etag: result.etag, body: reply.body });
    }
    return result;
  }

  /**
   * @param {string} url
   * @param {string | undefined} tag
   * @param {Request} request
   * @returns {Promise<Reply>}
   */
  async #send(url, tag, { proof, signal }) {
    signal?.throwIfAborted();
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    try {
      const response = await (this.#fetch ?? fetch)(url, {
        headers: {
          ...(!proof && { authorization: `Bearer ${this.#key}` }),
          'user-agent': this.#userAgent,
          ...(tag && { 'if-none-match': tag }),
        },
        redirect: 'manual', // the API has no redirects
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      const { status, headers } = response;
      return { status, headers, requestId: headers.get('x-request-id') ?? '', body: await response.text() };
    } catch (cause) {
      signal?.throwIfAborted();
      throw new OpportunityError({ code: 'connection_failed', message: `no response from ${this.#base}: ${reason(cause)}`, cause });
    }
  }
}

/**
 * Returns the milliseconds before the next attempt, or undefined if waiting does not help.
 *
 * @param {OpportunityError} error
 * @param {number} step
 */
function retryIn(error, step) {
  const backoff = step / 2 + (Math.random() * step) / 2;
  if (error.code === Code.minuteLimitReached) {
    return error.retryAfter * 1000 || backoff;
  }
  if (error.code === 'connection_failed' || error.status >= 500) {
    return Math.max(error.retryAfter * 1000, backoff);
  }
  return undefined;
}

/**
 * Returns an error of fetch and its causes: the system's error, and those of each address of a host.
 *
 * @param {any} error
 * @returns {any[]}
 */
function causes(error) {
  return error ? [error, ...causes(error.cause), ...(error.errors ?? [])] : [];
}

/**
 * Returns the message of the innermost cause.
 *
 * @param {unknown} error
 */
function reason(error) {
  return causes(error).at(-1)?.message || 'the request failed';
}

/**
 * Tells whether an error of fetch means that no connection could be opened.
 *
 * @param {unknown} error
 */
function isUnreachable(error) {
  return causes(error).some(
    ({ syscall, code, message }) =>
      syscall === 'connect' || syscall === 'getaddrinfo' || /CERT|SIGNATURE|SSL|CONNECT_TIMEOUT/.test(code) || message === 'bad port',
  );
}

/**
 * Returns the seconds of a Retry-After, which has seconds or a date (RFC 9110 section 10.2.3), or 0 if it is missing or in the past.
 *
 * @param {string} text
 * @param {Date} now
 */
function retryAfter(text, now) {
  const [, day, month, year = '', time, month2, day2, time2, year2] =
    /^\w+, (\d\d)[ -](\w{3})[ -](\d{4}|\d\d) (\d\d:\d\d:\d\d) GMT$|^\w{3} (\w{3}) ([ \d]\d) (\d\d:\d\d:\d\d) (\d{4})$/.exec(text) ?? [];
  const century = year.length === 2 ? (Number(year) < 69 ? '20' : '19') : '';
  const at = Date.parse(day ? `${day} ${month} ${century}${year} ${time} GMT` : `${day2} ${month2} ${year2} ${time2} GMT`);
  const seconds = Number.isNaN(at) ? number(text) : Math.ceil((at - now.getTime()) / 1000);
  return Math.min(Math.max(0, seconds), MAX_DELAY);
}

/**
 * Returns the whole number that a text is, or 0.
 *
 * @param {string | null | undefined} text
 */
function number(text) {
  return /^\d+$/.test(text ?? '') ? Number(text) : 0;
}

/**
 * @param {Reply} reply
 * @param {Date} now
 * @returns {import('./index.js').ResponseInfo}
 */
function describe({ status, headers, requestId }, now) {
  const minute = (/** @type {string} */ name, /** @type {string} */ parameter) =>
    number(new RegExp(`"minute"[^,]*;${parameter}=(\\d+)`).exec(headers.get(name) ?? '')?.[1]);
  return {
    requestId,
    rateLimit: {
      limit: number(headers.get('x-ratelimit-limit')),
      remaining: number(headers.get('x-ratelimit-remaining')),
      reset: new Date(Math.min(number(headers.get('x-ratelimit-reset')), LAST_SECOND) * 1000),
    },
    minuteLimit: {
      limit: minute('ratelimit-policy', 'q'),
      remaining: minute('ratelimit', 'r'),
      reset: new Date(now.getTime() + Math.min(minute('ratelimit', 't'), MAX_DELAY) * 1000),
    },
    notModified: status === 304,
  };
}
