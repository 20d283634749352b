// Updates a copy of all records in the file copy.json. Run it as often as your use needs.
import { readFile, rename, writeFile } from 'node:fs/promises';

import { OpportunityClient } from 'opportunity-data';

/** A copy in a JSON file. A program with a database stores records and state in one transaction instead. */
class FileStore {
  static async open(path) {
    const text = await readFile(path, 'utf8').catch((error) => {
      if (error.code !== 'ENOENT') throw error;
      return '{"state": null, "records": {}}';
    });
    return Object.assign(new FileStore(), { path, content: JSON.parse(text) });
  }

  state() {
    return this.content.state;
  }

  ids() {
    return Object.keys(this.content.records);
  }

  /** Writes a new file and then renames it, so a crash leaves the old copy. */
  async apply({ put, remove, state }) {
    for (const record of put) this.content.records[record.id] = record;
    for (const id of remove) delete this.content.records[id];
    this.content.state = state;
    await writeFile(`${this.path}.new`, JSON.stringify(this.content));
    await rename(`${this.path}.new`, this.path);
  }
}

const client = new OpportunityClient();
const { full, put, removed } = await client.sync(await FileStore.open('copy.json'));
console.log(`all: ${full}, stored: ${put}, removed: ${removed}`);
