// Compares index.d.ts with the code: this file compiles only if the code has the declared types.
import type * as declared from '../src/index.js';
import { MemoryCache } from '../src/cache.js';
import { FileCopy, SqliteCopy } from '../src/copies.js';
import { OpportunityClient, VERSION } from '../src/client.js';
import { OpportunityError } from '../src/error.js';
import { ProofError, verifyEvent } from '../src/proof.js';

export const client: typeof declared.OpportunityClient = OpportunityClient;
export const cache: typeof declared.MemoryCache = MemoryCache;
export const error: typeof declared.OpportunityError = OpportunityError;
export const version: typeof declared.VERSION = VERSION;
export const files: typeof declared.FileCopy = FileCopy;
export const sqlite: typeof declared.SqliteCopy = SqliteCopy;
export const proofError: typeof declared.ProofError = ProofError;
export const verify: typeof declared.verifyEvent = verifyEvent;
