import { OpportunityClient } from 'opportunity-data';

const client = new OpportunityClient();
const { data } = await client.opportunity('maple-scribe');
console.log(data.company.name, data.verification.status);
