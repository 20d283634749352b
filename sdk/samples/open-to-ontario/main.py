"""Updates a copy of all records, and prints the remote platforms that are open to residents of Ontario, each with its evidence.

Run it every 15 minutes.
"""

import json
import sys
from datetime import UTC, datetime

from opportunity_data import Client, FileCopy, Opportunity, OpportunityError, SearchFilter, matches

FILE = "opportunities.ndjson"
FILTER: SearchFilter = {"country": "CA", "province": "ON", "remote": True, "verified": True, "application_status": "open"}


def show(record: Opportunity) -> None:
    """Prints a record with its evidence."""
    verification = record["verification"]
    checked, until = verification["lastCheckedAt"] or "", verification["freshUntil"] or ""
    print(f"{record['company']['name']}: verified on {checked[:10]}, counts until {until[:10]}")
    for entry in record["facts"]["countryEligibility"]:
        for url in entry["sourceUrls"] if entry["country"] == "CA" else []:
            print(f"  open to Ontario, says {url}")
    for source in record["sources"]:
        print(f"  source: {source['url']}")


try:
    Client().sync(FileCopy(FILE))
except OpportunityError as error:
    print(error, file=sys.stderr)  # the copy is as before: show it with the dates that it has

now = datetime.now(UTC)
with open(FILE, encoding="utf-8") as lines:
    for record in map(json.loads, lines):
        if matches(record, FILTER, now):
            show(record)
