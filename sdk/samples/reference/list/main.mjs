import { OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient();
for await (const record of client.opportunities({ country: 'CA', category: 'sell' })) {
  console.log(record.id);
}
