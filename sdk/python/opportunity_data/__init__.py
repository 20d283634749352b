"""Client of the Opportunity Data API: reviewed records of platforms on which people earn.

    from opportunity_data import Client

    client = Client()  # reads OPPORTUNITY_URL and OPPORTUNITY_KEY
    for record in client.opportunities(country="CA", remote=True):
        print(record["id"], record["verification"]["status"])

Records are dictionaries with the names of the API; the types are typed dictionaries. A fact is True, False or None, where None means
unknown. No filter matches an unknown fact.

Every failed call raises an OpportunityError. The client waits and retries when the minute limit is reached, when the service fails (5xx)
and when the connection fails, until it has waited for the retry budget. It never waits for the next day: a used-up daily quota or shared
capacity raises at once.
"""

from ._asynchronous import AsyncClient
from ._cache import Cache, CacheEntry, MemoryCache
from ._client import VERSION, Client
from ._copies import FileCopy, SQLiteCopy
from ._error import Cancelled, OpportunityError
from ._list import ChangePage, Detail, Page
from ._match import matches
from ._proof import Proof, ProofError, Seen, verify_event
from ._request import RateLimit, ResponseInfo, Retry
from ._sync import Changes, Store, SyncResult, SyncState
from . import _types
from ._types import *

__version__ = VERSION
__all__ = [
    "AsyncClient",
    "Cache",
    "CacheEntry",
    "Cancelled",
    "ChangePage",
    "Changes",
    "Client",
    "Detail",
    "FileCopy",
    "MemoryCache",
    "OpportunityError",
    "Page",
    "Proof",
    "ProofError",
    "RateLimit",
    "ResponseInfo",
    "Retry",
    "SQLiteCopy",
    "Seen",
    "Store",
    "SyncResult",
    "SyncState",
    "matches",
    "verify_event",
]
__all__ += _types.__all__
