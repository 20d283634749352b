"""Updates a copy of all records in the SQLite database opportunities.db."""

from opportunity_data import Client, SQLiteCopy

result = Client().sync(SQLiteCopy("opportunities.db"))
print(f"stored: {result.put}, removed: {result.removed}")
