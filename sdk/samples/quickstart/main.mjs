// Lists recently verified platforms on which residents of Ontario can sell.
import { OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient(); // reads OPPORTUNITY_URL and OPPORTUNITY_KEY
const filter = { country: 'CA', province: 'ON', category: 'sell', verified: true };
for await (const record of client.opportunities(filter)) {
  console.log(record.id, record.verification.status, record.company.website);
}
