// Prints a record as HTML, with the status, check date and source beside each fact.
import { OpportunityClient } from 'opportunity-data';

const { data: record, meta } = await new OpportunityClient().opportunity('maple-scribe');
const { status, lastCheckedAt } = record.verification;
const checked = lastCheckedAt?.slice(0, 10) ?? 'never';
const source = record.sources[0]?.url ?? record.company.website; // for facts without a source of their own; all pages may be gone

// Each fact has a label, a value and a source.
const { countryEligibility, degreeRequired, pay } = record.facts;
const facts = countryEligibility.map((entry) => {
  // An eligible country does not mean that each of its regions is.
  const where = entry.allRegions ? 'all regions' : entry.includedRegions.join(', ') || 'regions unknown';
  const except = entry.excludedRegions.length > 0 ? ` except ${entry.excludedRegions.join(', ')}` : '';
  return [`Residents of ${entry.country}`, `${entry.status}: ${where}${except}`, entry.sourceUrls[0]];
}).filter(([, , source]) => source);
facts.push(['Degree required', String(degreeRequired ?? 'unknown'), source]); // true, false or unknown
const amount = pay && `${pay.minimum} to ${pay.maximum} ${pay.currency} for each ${pay.unit}`;
facts.push(['Pay', amount ?? 'unknown', pay?.sourceUrl ?? source]);

const escape = (value = '') => value.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

console.log(`<article>
  <h2>${escape(record.company.name)}</h2>
  <dl>`);
for (const [label, value, source] of facts) {
  console.log(`    <dt>${escape(label)}</dt>
    <dd>${escape(value)} (${status}, checked ${checked}, <a href="${escape(source)}">source</a>)</dd>`);
}
console.log(`  </dl>
  <p>Status at <time>${meta.generatedAt.slice(0, 10)}</time></p>
</article>`);
