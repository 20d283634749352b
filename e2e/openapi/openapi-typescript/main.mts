// Lists opportunities with the types that openapi-typescript generates from the served description. Prints the id of each record, its
// remote fact and the date of its first source.
import type { components } from './description.js';

type OpportunityList = components['schemas']['OpportunityList'];
type CheckDate = components['schemas']['CheckDate'];

const response = await fetch(`${process.argv[2]}/api/v1/opportunities?country=CA&limit=50`, {
  headers: { authorization: `Bearer ${process.env['OPPORTUNITY_KEY']}` },
});
const list = (await response.json()) as OpportunityList;
for (const record of list.data) {
  const remote: boolean | null = record.facts.remote;
  const checked: CheckDate | null = record.sources[0]?.checkedAt ?? null;
  const day: string = checked === null ? 'unknown' : checked;
  console.log(record.id, remote === null ? 'unknown' : String(remote), day);
}
