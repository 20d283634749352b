// Counts for how many platforms it is known whether they allow remote work.
import { OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient();
const count = { true: 0, false: 0, null: 0 };
for await (const { data, pagination } of client.opportunityPages()) {
  for (const record of data) {
    count[record.facts.remote]++;
  }
  console.log(`page ${pagination.page}: ${data.length} of ${pagination.total} records`);
}
console.log(`remote: ${count.true} yes, ${count.false} no, ${count.null} unknown`);
