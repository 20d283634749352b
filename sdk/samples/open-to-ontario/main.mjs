// Updates a copy of all records, and prints the remote platforms that are open to residents of Ontario, each with its evidence. Run it every
// 15 minutes.
import { readFile } from 'node:fs/promises';

import { FileCopy, OpportunityClient, matches } from 'opportunity-data';

const file = 'opportunities.ndjson';
try {
  await new OpportunityClient().sync(new FileCopy(file));
} catch (error) {
  console.error(`not updated: ${error}`); // the copy is as before: show it with the dates that it has
}

const filter = { country: 'CA', province: 'ON', remote: true, verified: true, applicationStatus: 'open' };
const now = new Date();
for (const line of (await readFile(file, 'utf8')).split('\n').filter(Boolean)) {
  const record = JSON.parse(line);
  if (!matches(record, filter, now)) continue;
  const { company, facts, sources, verification: { lastCheckedAt, freshUntil } } = record;
  console.log(`${company.name}: verified on ${lastCheckedAt.slice(0, 10)}, counts until ${freshUntil.slice(0, 10)}`);
  for (const { country, sourceUrls } of facts.countryEligibility) {
    if (country === 'CA') for (const source of sourceUrls) console.log(`  open to Ontario, says ${source}`);
  }
  for (const { url } of sources) console.log(`  source: ${url}`);
}
