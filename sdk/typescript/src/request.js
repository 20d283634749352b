// Sends requests: attempts, retries, conditional requests.

import { setTimeout as delay } from 'node:timers/promises';

import { OpportunityError, responseError } from './error.js';
import { Code } from './parameters.js';
import { PROOF_VERSION } from './proof.js';

/**
 * A GET of the API. `proof` is set for a proof of the log, which is public and text.
 *
 * @typedef {{path: string, etag?: string, fresh?: boolean, proof?: boolean, signal?: AbortSignal | undefined}} Request
 */
/** @typedef {{status: number, headers: Headers, requestId: string, body: string}} Reply */
/** @typedef {{value: any, etag: string, response: import('./index.js').Response}} Result */

// Backoff between attempts in milliseconds. Each wait is a random time between half of the step and the step; the steps double.
const FIRST_STEP = 500;
const LAST_STEP = 30_000;

/** Sends GET requests to one address with one key. */
export class Requester {
  #base;
  #key;
  #userAgent;
  #timeoutMs;
  #retryBudgetMs;
  #cache;
  #onRetry;
  #sleep;
  #now;

  /**
   * @param {string} base
   * @param {string} key
   * @param {string} userAgent
   * @param {() => Date} now
   * @param {import('./index.js').ClientOptions} options
   */
  constructor(base, key, userAgent, now, { timeoutMs = 30_000, retryBudgetMs = 90_000, cache, onRetry, sleep }) {
    this.#base = base;
    this.#key = key;
    this.#userAgent = userAgent;
    this.#timeoutMs = timeoutMs;
    this.#retryBudgetMs = retryBudgetMs;
    this.#cache = cache;
    this.#onRetry = onRetry;
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
        if (wait === undefined || waited + wait > this.#retryBudgetMs) {
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
      throw responseError(reply);
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
      const response = await fetch(url, {
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
      throw new OpportunityError({ code: 'connection_failed', message: reason(cause), cause });
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
 * Returns the messages of an error of fetch and its cause.
 *
 * @param {unknown} error
 */
function reason(error) {
  if (!(error instanceof Error)) {
    return 'the request failed';
  }
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

/**
 * @param {Reply} reply
 * @param {Date} now
 * @returns {import('./index.js').Response}
 */
function describe({ status, headers, requestId }, now) {
  const number = (/** @type {string} */ name) => Number(headers.get(name)) || 0;
  const minute = (/** @type {string} */ name, /** @type {string} */ parameter) =>
    Number(new RegExp(`"minute"[^,]*;${parameter}=(\\d+)`).exec(headers.get(name) ?? '')?.[1] ?? 0);
  return {
    requestId,
    rateLimit: {
      limit: number('x-ratelimit-limit'),
      remaining: number('x-ratelimit-remaining'),
      reset: new Date(number('x-ratelimit-reset') * 1000),
    },
    minuteLimit: {
      limit: minute('ratelimit-policy', 'q'),
      remaining: minute('ratelimit', 'r'),
      reset: new Date(now.getTime() + minute('ratelimit', 't') * 1000),
    },
    notModified: status === 304,
  };
}
