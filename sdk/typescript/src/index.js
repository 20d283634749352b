export { MemoryCache } from './cache.js';
export { OpportunityClient, VERSION } from './client.js';
export { OpportunityError } from './error.js';
export { Code } from './parameters.js';
