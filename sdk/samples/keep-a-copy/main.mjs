// Updates a copy of all records in the file copy.json. Run it as often as your use needs.
import { readFile, rename, writeFile } from 'node:fs/promises';

import { OpportunityClient } from 'opportunity-data';

const text = await readFile('copy.json', 'utf8').catch((error) => {
  if (error.code !== 'ENOENT') throw error;
  return '{"state": null, "records": {}}';
});
const copy = JSON.parse(text);

// A program with a database stores records and state in one transaction instead.
const { full, put, removed } = await new OpportunityClient().sync({
  state: () => copy.state,
  ids: () => Object.keys(copy.records),
  async apply({ put, remove, state }) {
    for (const record of put) copy.records[record.id] = record;
    for (const id of remove) delete copy.records[id];
    copy.state = state;
    await writeFile('copy.json.new', JSON.stringify(copy));
    await rename('copy.json.new', 'copy.json'); // a crash leaves the old copy
  },
});
console.log(`all: ${full}, stored: ${put}, removed: ${removed}`);
