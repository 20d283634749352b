import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { OpportunityClient } from '../src/index.js';

test('the key never appears in errors or printed clients', async () => {
  const key = 'oda_live_topsecret';
  for (const options of [
    { url: 'http://localhost', key: `${key}\n` },
    { url: 'http://localhost/path?', key },
    { url: 'http://localhost/#top', key },
    { url: 'http://user@localhost', key },
    { url: 'localhost:8080', key },
    { url: '', key },
  ]) {
    assert.throws(() => new OpportunityClient(options), (error) => !inspect(error).includes('topsecret'));
  }
  const client = new OpportunityClient({ url: 'http://127.0.0.1:1', key, retryBudgetMs: 0 });
  await assert.rejects(client.opportunity('a'), (error) => !inspect(error, { depth: 9 }).includes('topsecret'));
  assert.ok(!inspect(client, { depth: 9, showHidden: true }).includes('topsecret'));
});

test('address and key come from the environment', () => {
  delete process.env['OPPORTUNITY_URL'];
  delete process.env['OPPORTUNITY_KEY'];
  assert.throws(() => new OpportunityClient({ url: 'http://localhost' }), /OPPORTUNITY_KEY/);
  assert.throws(() => new OpportunityClient({ key: 'k' }), /OPPORTUNITY_URL/);
  process.env['OPPORTUNITY_URL'] = 'http://localhost/';
  process.env['OPPORTUNITY_KEY'] = 'k';
  assert.ok(new OpportunityClient());
});

test('refuses to run in a browser', () => {
  const browser = /** @type {any} */ (globalThis);
  browser.document = {};
  try {
    assert.throws(() => new OpportunityClient({ url: 'http://localhost', key: 'k' }), /browser/);
  } finally {
    delete browser.document;
  }
});

test('an abort signal ends calls and waits', async () => {
  const { url, requested, close } = await server();
  const client = new OpportunityClient({ url, key: 'k' });
  for (const id of ['slow', 'limited']) {
    const controller = new AbortController();
    const call = client.opportunity(id, { signal: controller.signal });
    await requested();
    controller.abort(new Error('enough'));
    await assert.rejects(call, { message: 'enough' });
  }
  await assert.rejects(client.opportunity('slow', { signal: AbortSignal.abort(new Error('enough')) }), { message: 'enough' });
  close();
});

test('an unknown filter is an error before any request', async () => {
  const client = new OpportunityClient({ url: 'http://127.0.0.1:1', key: 'k' });
  const filter = /** @type {any} */ ({ limit: 5 });
  await assert.rejects(client.opportunities(filter).next(), /unknown filter limit; use pageSize/);
});

test('a Date is a filter', async () => {
  const urls = /** @type {string[]} */ ([]);
  const listener = createServer((request, response) => {
    urls.push(request.url ?? '');
    response.end('{"data": [], "pagination": {"limit": 100, "hasMore": false, "next": null}, "meta": {"version": "1"}}');
  });
  await /** @type {Promise<void>} */ (new Promise((ready) => listener.listen(0, '127.0.0.1', ready)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (listener.address());
  const client = new OpportunityClient({ url: `http://127.0.0.1:${port}`, key: 'k' });
  await client.opportunities({ checkedAfter: new Date(0) }).next();
  listener.closeAllConnections();
  listener.close();
  assert.deepEqual(urls, ['/api/v1/opportunities?limit=100&checked_after=1970-01-01T00%3A00%3A00.000Z']);
});

test('a passed fetch sends the requests', async () => {
  /** @type {any[]} */
  const sent = [];
  /** @type {typeof globalThis.fetch} */
  const fetch = async (url, options) => {
    sent.push([url, options?.redirect]);
    const verification = { lastCheckedAt: null, freshUntil: null };
    return Response.json({ data: { id: 'a', verification }, meta: { version: '1' } });
  };
  await new OpportunityClient({ url: 'http://unused.example/base', key: 'k', fetch }).opportunity('a');
  assert.deepEqual(sent, [['http://unused.example/base/api/v1/opportunities/a', 'manual']]);
});

test('a failed connection names the address and the cause, after two attempts', async () => {
  const closed = createServer();
  await /** @type {Promise<void>} */ (new Promise((ready) => closed.listen(0, '127.0.0.1', ready)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (closed.address());
  closed.close();
  for (const [url, cause] of [
    [`http://127.0.0.1:${port}`, `ECONNREFUSED 127.0.0.1:${port}`],
    [`http://localhost:${port}`, 'ECONNREFUSED'], // of several addresses
    ['http://127.0.0.1:1', 'bad port'],
  ]) {
    /** @type {number[]} */
    const attempts = [];
    const client = new OpportunityClient({ url, key: 'k', sleep: async () => {}, onRetry: ({ attempt }) => attempts.push(attempt) });
    await assert.rejects(client.opportunity('a'), (/** @type {any} */ error) => {
      assert.ok(error.detail.startsWith(`no response from ${url}: `) && error.detail.includes(cause), error.detail);
      return error.code === 'connection_failed';
    });
    assert.deepEqual(attempts, [1], url);
  }
});

/** Starts a server that never answers /slow and asks callers of /limited to wait for a minute. */
async function server() {
  /** @type {(() => void)[]} */
  const waiting = [];
  let requests = 0;
  const listener = createServer((request, response) => {
    requests++;
    waiting.splice(0).forEach((resolve) => resolve());
    if (request.url?.endsWith('/limited')) response.writeHead(503, { 'Retry-After': '60' }).end();
  });
  await /** @type {Promise<void>} */ (new Promise((ready) => listener.listen(0, '127.0.0.1', ready)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (listener.address());
  return {
    url: `http://127.0.0.1:${port}`,
    /** Resolves when the next request has arrived. */
    requested: () => (requests-- > 0 ? undefined : new Promise((resolve) => waiting.push(() => resolve(requests--)))),
    close() {
      listener.closeAllConnections();
      listener.close();
    },
  };
}
