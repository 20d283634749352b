"""A program of a consumer. The package as it is installed must type-check in it, and each line with an ignored error must not."""

from datetime import UTC, date, datetime
from typing import assert_never

from opportunity_data import (
    AsyncClient,
    Category,
    Client,
    Code,
    VerificationEvent,
    FileCopy,
    Filter,
    MemoryCache,
    Opportunity,
    OpportunityError,
    Pay,
    ProofError,
    RecordChange,
    SQLiteCopy,
    verify_event,
)

client = Client(cache=MemoryCache(10), user_agent="prices/1.2", on_retry=lambda r: print(r.attempt, r.wait, r.error.code))
chosen: Filter = {"country": "CA", "category": "sell", "remote": True, "checked_after": date(2026, 11, 1)}
for record in client.opportunities(**chosen):
    first: Opportunity = record
    pay: Pay | None = first["facts"]["pay"]
    print(pay["minimum"] if pay else None)
for event in client.history("maple-scribe"):
    found: VerificationEvent = event
    print(found["checkedAt"])
    try:
        proof = verify_event(client.event_proof(found["id"]), log=["name+0badc0de+base64"], quorum=0)
        print(proof.event["outcome"], proof.recorded_at[:10], [seen.at.year for seen in proof.witnesses])
    except ProofError as error:
        print(error.reason.upper())
for page in client.opportunity_pages(checked_after=datetime.now(UTC)):
    print(page.data[0]["id"], page.response.rate_limit.remaining)
for change_page in client.change_pages(after="now"):
    changes: list[RecordChange] = change_page.data
    print(changes, change_page.pagination["cursor"])
try:
    client.opportunity("maple-scribe")
except OpportunityError as error:
    if error.code == Code.NOT_FOUND:
        print(error.request_id)


def label(category: Category) -> str:
    match category:
        case "online" | "sell":
            return "anywhere"
        case "local" | "host":
            return "at home"
    assert_never(category)


client.sync(FileCopy("opportunities.csv"))
client.sync(SQLiteCopy("opportunities.db"))


async def ids() -> list[str]:
    async with AsyncClient() as calls:
        detail = await calls.opportunity("maple-scribe")
        return [detail.data["id"]] + [record["id"] async for record in calls.opportunities(country="CA")]


print(Code.NOT_FUOND)  # type: ignore[attr-defined]
print(label("sel"))  # type: ignore[arg-type]
client.opportunities(contry="CA")  # type: ignore[call-arg]
verify_event("", witnesses=[])  # type: ignore[call-arg]
client.changes(page=2)  # type: ignore[call-arg]
client.opportunities(remote="yes")  # type: ignore[arg-type]
client.opportunities(category="sel")  # type: ignore[arg-type]
print(first["facts"]["pay"]["minimum"])  # type: ignore[index]
