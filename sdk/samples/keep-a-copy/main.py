"""Updates a copy of all records in the file copy.json. Run it as often as your use needs."""

import json
import os
from pathlib import Path
from typing import Any

from opportunity_data import Changes, Client, SyncState


class FileStore:
    """A copy in a JSON file. A program with a database stores records and state in one transaction instead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"state": None, "records": {}}
        if path.exists():
            self.content = json.loads(path.read_text())

    def state(self) -> SyncState | None:
        state = self.content["state"]
        return SyncState(**state) if state else None

    def ids(self) -> list[str]:
        return list(self.content["records"])

    def apply(self, changes: Changes) -> None:
        """Writes a new file and then renames it, so a crash leaves the old copy."""
        for record in changes.put:
            self.content["records"][record["id"]] = record
        for id in changes.remove:
            self.content["records"].pop(id, None)
        self.content["state"] = vars(changes.state)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.content))
        os.replace(new, self.path)


result = Client().sync(FileStore(Path("copy.json")))
print(f"all: {str(result.full).lower()}, stored: {result.put}, removed: {result.removed}")
