"""Shows what a program does about each kind of error."""

from opportunity_data import Client, Code, OpportunityError


def advice(error: OpportunityError) -> str:
    """Returns what to do about a failed call. The client has retried already."""
    match error.code:
        case Code.NOT_FOUND:
            return "remove the record"
        case Code.MISSING_API_KEY | Code.INVALID_API_KEY | Code.EXPIRED_API_KEY | Code.REVOKED_API_KEY:
            return "get another key"
        case Code.SUBSCRIPTION_REQUIRED | Code.ACCOUNT_SUSPENDED:
            return "ask the owner of the account"
        case Code.MINUTE_LIMIT_REACHED | Code.DAILY_LIMIT_REACHED | Code.SERVICE_CAPACITY_REACHED:
            return f"continue in {error.retry_after} s"
        case "connection_failed" | Code.SERVICE_UNAVAILABLE | Code.INTERNAL_ERROR:
            return "continue later"
        case _:
            return f"fix the program: {error}, see {error.documentation}"


client = Client()
for id in ("maple-scribe", "no-such-record"):
    try:
        print(f"{id}: {client.opportunity(id).data['verification']['status']}")
    except OpportunityError as error:
        print(f"{id}: {advice(error)}")
