// Runs the cases that all SDKs must pass; sdk/conformance/README.md describes them.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { FileCopy, matches, MemoryCache, OpportunityClient, OpportunityError, ProofError, SqliteCopy, VERSION, verifyEvent } from '../src/index.js';

const suite = new URL('../../conformance/', import.meta.url);
const key = 'oda_test_conformance';

/** @param {string} name @returns {any} */
const read = (name) => JSON.parse(readFileSync(new URL(name, suite), 'utf8'));
const fixtures = read('fixtures/fixtures.json');

for (const file of readdirSync(suite).filter((name) => name.endsWith('.json'))) {
  for (const testCase of expand(read(file))) {
    test(`${file}: ${testCase.name}`, () => run(testCase));
  }
}

test('matches answers as the API', () => {
  const { records, cases } = read('matches/cases.json');
  assert.ok(cases.length >= 500);
  for (const { record, filter, now, want } of cases) {
    assert.equal(matches(records[record], filter, new Date(now)), want, `${records[record].id} ${JSON.stringify(filter)} ${now}`);
  }
  for (const filter of read('matches/rejected.json')) {
    assert.throws(() => matches(records[0], filter), TypeError, JSON.stringify(filter));
  }
  assert.equal(matches(records[0], { checkedAfter: new Date('1999-01-01') }), records[0].verification.lastCheckedAt !== null);
});

const proofs = read('proofs/cases.json').map((/** @type {any} */ c) => ({ ...c, proof: repeated(c.proof, c.repeat) }));

for (const { name, proof, keys, want } of proofs) {
  test(`proofs: ${name}`, async () => {
    if (want.reason) {
      await assert.rejects(verifyEvent(proof, keys), (error) => error instanceof ProofError && error.reason === want.reason);
    } else {
      const { witnesses, ...got } = await verifyEvent(proof, keys);
      const seen = witnesses.map(({ name, at }) => ({ name, at: at.toISOString().replace('.000Z', 'Z') }));
      assert.deepEqual({ witnesses: seen, ...got }, { witnesses: [], index: 0, ...want });
    }
  });
}

/** Repeats the last line of a proof. @param {string} proof @param {number} [times] */
function repeated(proof, times = 0) {
  return proof + proof.slice(proof.lastIndexOf('\n', proof.length - 2) + 1).repeat(times);
}

test('copies have the same content as those of other SDKs', async (t) => {
  const exports = expand(read('fixtures/exports.json'));
  const dir = mkdtempSync(join(tmpdir(), 'copies-'));
  t.after(() => rmSync(dir, { recursive: true }));
  for (const { put, remove } of exports.steps) { // each opens the copies anew
    for (const name of ['copy.csv', 'copy.ndjson']) {
      const copy = new FileCopy(join(dir, name));
      assert.equal((await copy.ids()).length, (await copy.state()) ? 3 : 0);
      await copy.apply({ put, remove, state: { ...noState, fullWalkAt: '2026-11-22T12:00:00Z' } });
    }
  }
  assert.equal(readFileSync(join(dir, 'copy.csv'), 'utf8'), exports.csv.map((/** @type {string} */ line) => `${line}\r\n`).join(''));
  const [first, second] = readFileSync(join(dir, 'copy.ndjson'), 'utf8').split('\n', 2).map((line) => JSON.parse(line));
  assert.deepEqual([first.id, first.verification.status, second.id], ['a', 'stale', 'b']);
});

test('an SQLite copy has the same content as those of other SDKs', () => {
  const exports = expand(read('fixtures/exports.json'));
  const { Database } = createRequire(new URL('../../../e2e/openapi/', import.meta.url))('node-sqlite3-wasm'); // node:sqlite needs Node 22.13
  const opened = new Database(':memory:');
  const database = {
    exec: (/** @type {string} */ sql) => opened.exec(sql),
    prepare: (/** @type {string} */ sql) => ({
      run: (/** @type {string[]} */ ...values) => opened.run(sql, values),
      get: (/** @type {string[]} */ ...values) => opened.get(sql, values) ?? undefined,
      all: (/** @type {string[]} */ ...values) => opened.all(sql, values),
    }),
  };
  for (const { put, remove } of exports.steps) {
    const copy = new SqliteCopy(database);
    assert.equal(copy.ids().length, copy.state() ? 3 : 0);
    copy.apply({ put, remove, state: { ...noState, fullWalkAt: '2026-11-22T12:00:00Z' } });
  }
  const before = new SqliteCopy(database).ids();
  const broken = /** @type {any} */ ({ put: [], remove: before, state: 1n }); // which is no JSON
  assert.throws(() => new SqliteCopy(database).apply(broken), TypeError);
  assert.deepEqual(new SqliteCopy(database).ids(), before, 'a failed change leaves the copy as it was');
  assert.deepEqual(database.prepare(exports.query).all().map((/** @type {object} */ row) => Object.values(row)), exports.rows);
  opened.close();
});

/** @type {import('../src/index.js').SyncState} */
const noState = { checkedAfter: null, fullWalkAt: '' };

/** @param {any} testCase */
async function run({ options = {}, copy, calls, exchanges }) {
  /** @type {unknown[]} */
  const failures = [];
  let played = 0;
  const server = createServer((request, response) => {
    try {
      assert.ok(played < exchanges.length, `unexpected request ${request.url}`);
      play(exchanges[played++], request, response);
    } catch (error) {
      failures.push(error);
      response.writeHead(418).end();
    }
  });
  await /** @type {Promise<void>} */ (new Promise((ready) => server.listen(0, '127.0.0.1', ready)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  if (options.refuse) server.close();
  /** @type {number[]} */
  let waits = [];
  /** @type {object[]} */
  let retries = [];
  let now = new Date();
  const client = new OpportunityClient({
    url: `http://127.0.0.1:${port}${options.path ?? ''}`,
    key,
    retryBudgetMs: options.retryBudget === undefined ? undefined : options.retryBudget * 1000,
    timeoutMs: options.timeout && options.timeout * 1000,
    userAgent: options.userAgent,
    onRetry: ({ attempt, waitMs, error }) => retries.push({ attempt, wait: waitMs / 1000, code: error.code }),
    cache: options.cache && new MemoryCache(options.cache),
    sleep: options.deadline ? undefined : async (ms) => waits.push(ms / 1000),
    now: () => now,
  });
  const store = memoryStore(copy);
  try {
    for (const call of calls) {
      waits = [];
      retries = [];
      now = new Date(call.now ?? 0);
      const got = await outcome(client, call, store, options.deadline && AbortSignal.timeout(options.deadline * 1000));
      assert.deepEqual(failures, []);
      compare({ ...got, waits, retries }, call.want);
    }
    if (!options.deadline) { // which can end a call before its request
      assert.equal(played, exchanges.length, 'number of requests');
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/**
 * Checks a request and sends its response.
 *
 * @param {any} exchange
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 */
function play(exchange, request, response) {
  const [path, query] = /** @type {string} */ (request.url).split('?');
  assert.equal(path, exchange.path);
  assert.deepEqual(Object.fromEntries(new URLSearchParams(query)), exchange.query);
  assert.equal(request.headers.authorization, exchange.public ? undefined : `Bearer ${key}`);
  const port = String(request.socket.localPort);
  assert.equal(request.headers.host, `127.0.0.1:${port}`);
  for (const [name, value] of Object.entries(/** @type {Record<string, string | null>} */ (exchange.headers ?? {}))) {
    assert.equal(request.headers[name] ?? null, value?.replace('{sdk}', `opportunity-typescript/${VERSION}`) ?? null, name);
  }
  if (exchange.drop) {
    request.socket.destroy();
    return;
  }
  if (exchange.hang) return; // until the server closes its connections
  const { status = 200, send, text, body } = JSON.parse(JSON.stringify(exchange).replaceAll('{port}', port));
  for (let i = 0; i < exchange.early; i++) response.writeEarlyHints({ link: '</style.css>; rel=preload' });
  response.writeHead(status, { 'Content-Type': 'application/json', ...send });
  const content = text ?? (body && JSON.stringify(body));
  response.end(exchange.gzip ? gzipSync(content) : content);
}

/**
 * Makes a call and returns everything that a case can compare.
 *
 * @param {OpportunityClient} client
 * @param {any} call
 * @param {ReturnType<typeof memoryStore>} store
 * @param {AbortSignal | undefined} signal
 */
async function outcome(client, call, store, signal) {
  /** @type {any} */
  const got = {};
  /** @type {any[]} */
  const found = [];
  const collect = async (/** @type {AsyncIterable<any>} */ items) => {
    for await (const item of items) {
      found.push(item);
      if (found.length === call.take) break;
    }
  };
  try {
    switch (call.do) {
      case 'opportunities':
        await collect(client.opportunities(call.filter));
        break;
      case 'search':
        await collect(client.search(call.filter));
        break;
      case 'history':
        await collect(client.history(call.id));
        break;
      case 'changes':
        await collect(client.changes({ after: call.after }));
        break;
      case 'changePages':
        await collect(client.changePages({ after: call.after }));
        break;
      case 'opportunityPages':
        await collect(client.opportunityPages(call.filter));
        break;
      case 'opportunity': {
        const { data, response } = await client.opportunity(call.id, { signal });
        Object.assign(got, { id: data.id, remote: [data.facts.remote], ...response });
        break;
      }
      case 'eventProof':
        got.proof = await client.eventProof(call.id, { signal });
        break;
      case 'sync':
        Object.assign(got, await client.sync(store, { fullEveryMs: call.fullEvery && call.fullEvery * 1000 }));
        break;
      default:
        throw new Error(`unknown call ${call.do}`);
    }
  } catch (error) {
    if (error instanceof OpportunityError) {
      got.error = { .../** @type {object} */ (error), message: error.detail, text: error.message };
    } else if (error === signal?.reason) {
      got.timedOut = true;
    } else {
      throw error;
    }
  }
  if (call.do === 'opportunityPages') {
    got.pages = found.map(({ data, pagination, response }) => ({
      ids: data.map((/** @type {any} */ record) => record.id),
      page: pagination.page,
      total: pagination.total,
      remaining: response.rateLimit.remaining,
      reset: response.rateLimit.reset.toISOString().replace('.000Z', 'Z'),
      ...response,
      minuteLimit: { ...response.minuteLimit, reset: response.minuteLimit.reset.toISOString().replace('.000Z', 'Z') },
    }));
  } else if (call.do === 'changes') {
    got.ids = found.map(({ id }) => id);
    got.changes = found.map(({ change }) => change);
  } else if (call.do === 'changePages') {
    got.cursors = found.map(({ pagination }) => pagination.cursor);
  } else if (call.do === 'opportunities' || call.do === 'search' || call.do === 'history') {
    got.ids = found.map((item) => item.id);
    got.remote = found.map((item) => item.facts?.remote);
  }
  got.copy = Object.fromEntries([...store.records].map(([id, record]) => [id, record.summary]));
  got.state = store.state();
  got.cursor = got.state?.cursor ?? '';
  return got;
}

/**
 * Asserts that got contains every entry of want. An unexpected error fails.
 *
 * @param {any} got
 * @param {any} want
 */
function compare(got, { waits, state, ...want }) {
  if (waits) {
    assert.equal(got.waits.length, waits.length, `waits ${got.waits}`);
    for (const [i, [from, to]] of waits.entries()) {
      assert.ok(from <= got.waits[i] && got.waits[i] <= to, `waits ${got.waits}`);
    }
  }
  for (const [name, time] of Object.entries(state ?? {})) {
    assert.equal(Date.parse(got.state[name]), Date.parse(time), name);
  }
  if (!want.error) {
    assert.equal(got.error, undefined);
  }
  contains(got, want, 'outcome');
}

/** @param {any} got @param {any} want @param {string} at */
function contains(got, want, at) {
  if (want === null || typeof want !== 'object') {
    assert.equal(got, want, at);
    return;
  }
  if (Array.isArray(want)) {
    assert.equal(got?.length, want.length, at);
  }
  for (const name of Object.keys(want)) {
    contains(got?.[name], want[name], `${at}.${name}`);
  }
}

/** @param {any} copy */
function memoryStore(copy) {
  /** @type {Map<string, any>} */
  const records = new Map(Object.entries(copy?.records ?? {}).map(([id, summary]) => [id, { id, summary }]));
  let state = copy?.state ?? null;
  return {
    records,
    state: () => state,
    ids: () => [...records.keys()],
    /** @param {import('../src/index.js').Changes} changes */
    apply(changes) {
      changes.put.forEach((record) => records.set(record.id, record));
      changes.remove.forEach((id) => records.delete(id));
      state = changes.state;
    },
  };
}

/** Puts fixtures in the place of {"$record": overrides} and the like. @param {any} value @returns {any} */
function expand(value) {
  if (Array.isArray(value)) return value.map(expand);
  if (value === null || typeof value !== 'object') return value;
  const [name] = Object.keys(value);
  if (name?.startsWith('$')) return merged(fixtures[name.slice(1)], value[name]);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, expand(inner)]));
}

/** @param {any} base @param {any} overrides @returns {any} */
function merged(base, overrides) {
  const objects = [base, overrides].every((v) => v !== null && typeof v === 'object' && !Array.isArray(v));
  if (!objects) return overrides;
  const inner = Object.entries(overrides).map(([name, value]) => [name, merged(base[name], value)]);
  return { ...base, ...Object.fromEntries(inner) };
}
