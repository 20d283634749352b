// Counts for how many platforms it is known whether they allow remote work.
import { OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient();
const count = { yes: 0, no: 0, unknown: 0 };
for await (const { data, pagination } of client.opportunityPages()) {
  for (const { facts } of data) {
    count[facts.remote === null ? 'unknown' : facts.remote ? 'yes' : 'no']++;
  }
  console.log(`page ${pagination.page}: ${data.length} of ${pagination.total} records`);
}
console.log(`remote: ${count.yes} yes, ${count.no} no, ${count.unknown} unknown`);
