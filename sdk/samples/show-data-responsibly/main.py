"""Prints a record as HTML, with the status, check date and source beside each fact."""

from collections.abc import Iterator
from html import escape

from opportunity_data import Client, CountryEligibility, Opportunity


def facts(record: Opportunity) -> Iterator[tuple[str, str, str]]:
    """Returns each fact as label, value and source. Without a source of its own, a fact is based on the sources of the record."""
    source = record["sources"][0]["url"] if record["sources"] else record["company"]["website"]  # all pages may be gone
    for entry in record["facts"]["countryEligibility"]:
        if entry["sourceUrls"]:
            yield f"Residents of {entry['country']}", f"{entry['status']}: {regions(entry)}", entry["sourceUrls"][0]
    degree = record["facts"]["degreeRequired"]
    yield "Degree required", "unknown" if degree is None else str(degree).lower(), source
    pay = record["facts"]["pay"]
    if pay:
        amount = f"{pay['minimum']:g} to {pay['maximum']:g} {pay['currency']} for each {pay['unit']}"
        yield "Pay", amount, pay["sourceUrl"]
    else:
        yield "Pay", "unknown", source


def regions(entry: CountryEligibility) -> str:
    """Returns the regions to which an entry applies: an eligible country does not mean that each of its regions is."""
    where = "all regions" if entry["allRegions"] else ", ".join(entry["includedRegions"]) or "regions unknown"
    return f"{where} except {', '.join(entry['excludedRegions'])}" if entry["excludedRegions"] else where


detail = Client().opportunity("maple-scribe")
record = detail.data
status = record["verification"]["status"]
checked = (record["verification"]["lastCheckedAt"] or "never")[:10]

print(f"<article>\n  <h2>{escape(record['company']['name'])}</h2>\n  <dl>")
for label, value, source in facts(record):
    print(f"    <dt>{escape(label)}</dt>")
    print(f'    <dd>{escape(value)} ({status}, checked {checked}, <a href="{escape(source)}">source</a>)</dd>')
print(f"  </dl>\n  <p>Status at <time>{detail.meta['generatedAt'][:10]}</time></p>\n</article>")
