import { OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient();
for await (const event of client.history('maple-scribe')) {
  console.log(event.checkType, event.outcome);
}
