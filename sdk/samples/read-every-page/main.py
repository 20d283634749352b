"""Counts for how many platforms it is known whether they allow remote work."""

from collections import Counter

from opportunity_data import Client

client = Client()
count: Counter[bool | None] = Counter()
for page in client.opportunity_pages():
    count.update(record["facts"]["remote"] for record in page.data)
    print(f"page {page.pagination['page']}: {len(page.data)} of {page.pagination['total']} records")
print(f"remote: {count[True]} yes, {count[False]} no, {count[None]} unknown")
