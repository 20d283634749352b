// Reads the list twice with a cache, and stops before the last tenth of the daily quota.
import { MemoryCache, OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient({
  cache: new MemoryCache(500),
  retryBudgetMs: 120_000, // enough to wait for the minute limit twice
  onRetry: ({ error, waitMs }) => console.error(`${error.code}: waiting for ${waitMs} ms`),
});

async function read() {
  for await (const { pagination, response } of client.opportunityPages()) {
    console.log(`page ${pagination.page}: from the cache: ${response.notModified}`);
    const { remaining, limit, reset } = response.rateLimit;
    if (remaining < limit / 10) {
      console.log('stop until', reset);
      process.exit();
    }
  }
}

await read();
await read();
