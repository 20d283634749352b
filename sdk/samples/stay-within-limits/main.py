"""Reads the list twice with a cache, and stops before the last tenth of the daily quota."""

import sys

from opportunity_data import Client, MemoryCache

client = Client(
    cache=MemoryCache(500),
    retry_budget=120,  # enough to wait for the minute limit twice
    on_retry=lambda r: print(f"{r.error.code}: waiting for {r.wait} s", file=sys.stderr),
)
for _ in range(2):
    for page in client.opportunity_pages():
        print(f"page {page.pagination['page']}: from the cache: {str(page.response.not_modified).lower()}")
        quota = page.response.rate_limit
        if quota.remaining < quota.limit / 10:
            sys.exit(f"stop until {quota.reset}")
