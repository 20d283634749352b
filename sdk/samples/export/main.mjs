// Updates a copy of all records in the file opportunities.csv.
import { FileCopy, OpportunityClient } from 'opportunity-data';

const { put, removed } = await new OpportunityClient().sync(new FileCopy('opportunities.csv'));
console.log(`stored: ${put}, removed: ${removed}`);
