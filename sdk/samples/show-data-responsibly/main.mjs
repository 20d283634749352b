// Prints a record as HTML, with the status, check date and source beside each fact.
import { OpportunityClient } from 'opportunity-data';

const { data: record, meta } = await new OpportunityClient().opportunity('maple-scribe');
const { status, lastCheckedAt } = record.verification;
const checked = lastCheckedAt?.slice(0, 10) ?? 'never';

/** Returns each fact as label, value and source. Without a source of its own, a fact is based on the sources of the record. */
function* facts({ countryEligibility, degreeRequired, pay }) {
  const source = record.sources[0]?.url ?? record.company.website; // no source if all pages are gone
  for (const entry of countryEligibility) {
    if (entry.sourceUrls.length > 0) yield [`Residents of ${entry.country}`, `${entry.status}: ${regions(entry)}`, entry.sourceUrls[0]];
  }
  yield ['Degree required', degreeRequired ?? 'unknown', source]; // true, false or unknown
  yield pay ? ['Pay', `in ${pay.currency} for each ${pay.unit}`, pay.sourceUrl] : ['Pay', 'unknown', source];
}

/** Returns the regions to which an entry applies: an eligible country does not mean that each of its regions is. */
function regions({ allRegions, includedRegions, excludedRegions }) {
  const where = allRegions ? 'all regions' : includedRegions.join(', ') || 'regions unknown';
  return excludedRegions.length > 0 ? `${where} except ${excludedRegions.join(', ')}` : where;
}

const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

console.log(`<article>
  <h2>${escape(record.company.name)}</h2>
  <dl>`);
for (const [label, value, source] of facts(record.facts)) {
  console.log(`    <dt>${escape(label)}</dt>
    <dd>${escape(value)} (${status}, checked ${checked}, <a href="${escape(source)}">source</a>)</dd>`);
}
console.log(`  </dl>
  <p>Status at <time>${meta.generatedAt.slice(0, 10)}</time></p>
</article>`);
