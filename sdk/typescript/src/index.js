export { MemoryCache } from './cache.js';
export { OpportunityClient, VERSION } from './client.js';
export { FileCopy, SqliteCopy } from './copies.js';
export { OpportunityError } from './error.js';
export { matches } from './match.js';
export { Code } from './parameters.js';
export { ProofError, verifyEvent } from './proof.js';
