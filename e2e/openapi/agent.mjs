// Answers ten questions with the tools of the API, as an agent would, through the official client for MCP. Prints the dialogue as Markdown.
// It has no model: each answer is made of the fields of results. Usage: node agent.mjs URL, with the key in OPPORTUNITY_KEY.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const client = new Client({ name: 'dialogue', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', process.argv[2]), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.OPPORTUNITY_KEY}` } },
}));
const { tools } = await client.listTools();
if (tools.length !== 3 || tools.some((tool) => !tool.annotations.readOnlyHint)) throw new Error(JSON.stringify(tools));

// use calls a tool and returns its result, or the text of its error.
async function use(name, args) {
  const result = await client.callTool({ name, arguments: args });
  console.log(`\`${name}\` \`${JSON.stringify(args)}\`\n`);
  const { text } = result.content[0];
  return result.isError ? { error: text } : JSON.parse(text);
}

const value = (record, name) => record.facts.find((fact) => fact.name === name);
const names = (records) => records.map((record) => record.name).join(', ');
const pay = ({ minimum, maximum, currency, unit }) => `${minimum} to ${maximum} ${currency} per ${unit}`;
// said states a fact with its evidence.
function said(record, name, show = JSON.stringify) {
  const fact = value(record, name);
  if (!fact) return `${record.name}: ${name} is not known.`;
  const sources = record.sources.filter(({ n }) => fact.sources?.includes(n) ?? true).map(({ url }) => url);
  return `${record.name}: ${show(fact.value)} (${record.status}, checked ${record.lastReviewAt?.slice(0, 10)}; source: ${sources.join(', ')}).`;
}
const cited = (records) => records.map((record) => `> — ${record.cite}`).join('\n>\n');

const search = (args) => use('search_opportunities', args);
const one = async (id) => (await use('get_opportunity', { id })).results[0];
const questions = {
  'Which platforms take people from Ontario for remote work?': async () => {
    const { total, results } = await search({ country: 'CA', province: 'ON', remote: true, limit: 3 });
    return [`${total} match; the three reviewed last are ${names(results)}.`, results];
  },
  'Which of them need no experience?': async () => {
    const { total, results } = await search({ country: 'CA', province: 'ON', remote: true, experience_required: false, limit: 2 });
    return [`${total} state that no experience is required, among them ${names(results)}. Others may not say.`, results];
  },
  'What does Maple Scribe pay?': async () => {
    const record = await one('maple-scribe');
    return [said(record, 'pay', pay), [record]];
  },
  'Are there warnings about it?': async () => {
    const record = await one('maple-scribe');
    return [said(record, 'riskIndicators', (risks) => risks.map((risk) => risk.note).join(' ')), [record]];
  },
  'Can I work for Kelp Translate from Quebec, and what does it pay?': async () => {
    const record = await one('kelp-translate');
    const entry = value(record, 'countryEligibility')?.value.find(({ country }) => country === 'CA');
    return [`For Canada the record says "${entry?.status ?? 'unknown'}", all regions: ${entry?.allRegions ?? 'unknown'}. ${said(record, 'pay', pay)}`, [record]];
  },
  'How can I earn with things I own, such as a parking place?': async () => {
    const { total, results } = await search({ category: 'host', verified: true, limit: 2 });
    return [`${total} platforms for hosts are verified, among them ${names(results)}.`, results];
  },
  'Is Rink Crew still hiring?': async () => {
    const record = await one('rink-crew');
    return [said(record, 'applicationStatus'), [record]];
  },
  'How sure is the pay at Granite Data?': async () => {
    const record = await one('granite-data');
    return [`${said(record, 'pay', pay)} The latest review is older than 14 days, so the record is ${record.status}.`, [record]];
  },
  'What do you know about Cobalt Tasks?': async () => {
    const record = await one('cobalt-tasks');
    return [`It was never reviewed (${record.status}). Unknown: ${record.unknown.join(', ')}.`, [record]];
  },
  'When was Maple Scribe checked last, and by whom?': async () => {
    const { total, results, cite } = await use('get_verification_history', { id: 'maple-scribe', limit: 3 });
    const events = results.map((event) => `${event.checkType} on ${event.checkedAt.slice(0, 10)}: ${event.outcome}`).join('; ');
    return [`The latest three of ${total} events: ${events}. The history does not name people.`, [{ cite }]];
  },
};
for (const [question, answer] of Object.entries(questions)) {
  console.log(`**${question}**\n`);
  const [text, records] = await answer();
  console.log(`> ${text}\n>\n${cited(records)}\n`.replace(/https?:[^\s,;)]+/g, '`$&`')); // sample records have no page elsewhere: no links
}
const { error } = await use('get_opportunity', { id: 'no-such-platform' });
if (!error.startsWith('not_found: ')) throw new Error(error);
await client.close();
