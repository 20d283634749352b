// A program of a consumer. The package as it is installed must type-check in it, and each line after @ts-expect-error must not.
import {
  Code, FileCopy, MemoryCache, OpportunityClient, OpportunityError, ProofError, verifyEvent, type Category, type VerificationEvent, type Filter, type Opportunity, type Pay, type RecordChange, type Store,
} from 'opportunity-data';

const client = new OpportunityClient({
  cache: new MemoryCache(10), userAgent: 'prices/1.2', onRetry: ({ attempt, waitMs, error }) => console.log(attempt, waitMs, error.detail),
});
const filter: Filter = { country: 'CA', category: 'sell', remote: true, checkedAfter: new Date(0) };
for await (const record of client.opportunities(filter)) {
  const first: Opportunity = record;
  const pay: Pay | null = first.facts.pay;
  const category: Category = first.category;
  console.log(pay?.minimum.toFixed(2), category.toUpperCase());
}
for await (const event of client.history('maple-scribe')) {
  const found: VerificationEvent = event;
  const proof = await verifyEvent(await client.eventProof(found.id), { log: ['name+0badc0de+base64'], quorum: 0 });
  const seen: Date | undefined = proof.witnesses[0]?.at;
  console.log(found.checkedAt, proof.event.checkedAt, proof.recordedAt.slice(0, 10), seen);
}
try {
  await client.opportunity('maple-scribe');
} catch (error) {
  if (error instanceof OpportunityError && error.code === Code.notFound) {
    const code: 'not_found' = Code.notFound;
    const known: Code = code;
    console.log(known, error.requestId);
  }
  if (error instanceof ProofError && error.reason === 'not_included') console.log(error.message);
}
for await (const page of client.changePages({ after: 'now' })) {
  const changes: RecordChange[] = page.data;
  console.log(changes.length, page.pagination.cursor.length);
}
export const copy = (store: Store) => client.sync(store);
export const file = () => client.sync(new FileCopy('opportunities.csv'));

// @ts-expect-error a misspelled code
console.log(Code.notFuond);
// @ts-expect-error codes are constants
Code.notFound = 'gone';
// @ts-expect-error a misspelled filter
client.opportunities({ contry: 'CA' });
// @ts-expect-error changes have no page number
client.changes({ page: 2 });
// @ts-expect-error a filter with a value of the wrong type
client.opportunities({ remote: 'yes' });
// @ts-expect-error a proof needs the keys of the log
verifyEvent('', { witnesses: [] });
// @ts-expect-error not a name of this package
export { parametersOfFilter } from 'opportunity-data';
// @ts-expect-error a misspelled option
new OpportunityClient({ timeout: 1 });
// @ts-expect-error a fact may be unknown
export const remote = async (id: string): Promise<boolean> => (await client.opportunity(id)).data.facts.remote;
