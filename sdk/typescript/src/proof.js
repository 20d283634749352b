import { Buffer } from 'node:buffer';

/** An event that is not proved, or a malformed proof or key. */
export class ProofError extends Error {
  /**
   * @param {string} reason
   * @param {string} message
   */
  constructor(reason, message) {
    super(`not proved: ${message}`);
    this.name = 'ProofError';
    this.reason = reason;
  }
}

const maxProof = 64 << 10;

/**
 * @typedef {{ name: string, id: Buffer, key: Buffer }} Key
 * @typedef {{ origin: string, size: bigint, root: Buffer, text: string, signatures: { name: string, data: Buffer }[] }} Checkpoint
 */

/**
 * Verifies the proof of an event (C2SP tlog-proof), without a network.
 *
 * @param {unknown} event
 * @param {string} proof
 * @param {import('./index.js').ProofKeys} keys
 * @returns {Promise<import('./index.js').Proof>}
 */
export async function verifyEvent(event, proof, keys) {
  const log = await parseKeys(keys.log, 1);
  const witnesses = await parseKeys(keys.witnesses ?? [], 4);
  const { index, path, extra, checkpoint } = parseProof(proof);
  const seen = await verify(checkpoint, log, witnesses);
  const quorum = keys.quorum || witnesses.length;
  if (seen.length < quorum) {
    throw new ProofError('not_witnessed', `${seen.length} of the given witnesses have cosigned the checkpoint, want ${quorum}`);
  }
  const leaf = await leafOf(event, extra);
  if (!(await included(leaf, index, checkpoint.size, path, checkpoint.root))) {
    throw new ProofError('different_event', 'the event differs from the one that was recorded, or the proof is of another event');
  }
  return { origin: checkpoint.origin, size: Number(checkpoint.size), index: Number(index), recordedAt: extra.recordedAt, witnesses: seen };
}

/** @param {Uint8Array[]} parts */
async function sha256(...parts) {
  return Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.concat(parts)));
}

/**
 * Parses verifier keys of a kind: 1 for notes, 4 for cosignatures.
 *
 * @param {string[]} all
 * @param {number} kind
 * @returns {Promise<Key[]>}
 */
function parseKeys(all, kind) {
  return Promise.all(
    all.map(async (text) => {
      const [name, id, ...rest] = text.split('+');
      const data = base64(rest.join('+'));
      if (!name || data?.length !== 33 || data[0] !== kind) {
        throw new ProofError('malformed_key', `"${text}" is not an Ed25519 key of type ${kind}, such as name+0badc0de+base64`);
      }
      const sum = (await sha256(Buffer.from(`${name}\n`), data)).subarray(0, 4);
      if (id !== sum.toString('hex')) {
        throw new ProofError('malformed_key', `the id of the key "${text}" is not that of its name and key`);
      }
      return { name, id: sum, key: data.subarray(1) };
    }),
  );
}

/** @param {string} what */
const malformed = (what) => new ProofError('malformed_proof', `malformed proof: ${what}`);

/**
 * Decodes base64 that is in its one form.
 *
 * @param {string} text
 */
function base64(text) {
  const data = Buffer.from(text, 'base64');
  return data.toString('base64') === text ? data : undefined;
}

/**
 * Parses a decimal number without leading zeros, below 2^53.
 *
 * @param {string | undefined} text
 * @param {string} what
 */
function parseSize(text, what) {
  if (text === undefined || !/^(0|[1-9][0-9]{0,15})$/.test(text) || Number(text) > Number.MAX_SAFE_INTEGER) {
    throw malformed(`${what} must be a decimal number`);
  }
  return BigInt(text);
}

/** @param {string | undefined} text */
function parseHash(text) {
  const hash = base64(text ?? '');
  if (hash?.length !== 32) {
    throw malformed('a hash must be base64 of 32 bytes');
  }
  return hash;
}

/**
 * Splits a text at the first empty line.
 *
 * @param {string} text
 * @returns {[string, string] | []}
 */
function halves(text) {
  const at = text.indexOf('\n\n');
  return at < 0 || text.length > maxProof ? [] : [text.slice(0, at), text.slice(at + 2)];
}

/** @param {string} text */
function parseProof(text) {
  const [head, rest] = halves(text);
  const [version, extraLine, indexLine, ...path] = head?.split('\n') ?? [];
  if (rest === undefined || version !== 'c2sp.org/tlog-proof@v1') {
    throw malformed('want the line c2sp.org/tlog-proof@v1, an extra line, an index line, hashes, an empty line and a checkpoint');
  }
  if (path.length > 63) {
    throw malformed('more than 63 hashes');
  }
  return {
    extra: parseExtra(extraLine),
    index: parseSize(indexLine?.startsWith('index ') ? indexLine.slice(6) : undefined, 'the index in the third line'),
    path: path.map(parseHash),
    checkpoint: parseCheckpoint(rest),
  };
}

/**
 * @param {string | undefined} line
 * @returns {{ private: string, recordedAt: string, added: string[] }}
 */
function parseExtra(line) {
  const data = line?.startsWith('extra ') ? base64(line.slice(6)) : undefined;
  try {
    const { private: hash, recordedAt, added = [] } = JSON.parse(data?.toString('utf8') ?? '');
    if (typeof hash === 'string' && typeof recordedAt === 'string' && Array.isArray(added) && added.every((path) => typeof path === 'string')) {
      return { private: hash, recordedAt, added };
    }
  } catch {
    // reported below
  }
  throw malformed('the second line must be extra and base64 of JSON');
}

/**
 * @param {string} note
 * @returns {Checkpoint}
 */
function parseCheckpoint(note) {
  const [body, signatures] = halves(note);
  const [origin, size, root, ...more] = body?.split('\n') ?? [];
  if (!origin || root === undefined || more.length > 0 || !signatures?.endsWith('\n')) {
    throw malformed('the checkpoint must have three lines, an empty line and signatures');
  }
  return {
    origin,
    size: parseSize(size, 'the size of the checkpoint'),
    root: parseHash(root),
    text: `${body}\n`,
    signatures: signatures
      .slice(0, -1)
      .split('\n')
      .map((line) => {
        const [, name, encoded] = /^— (\S+) (\S+)$/.exec(line) ?? [];
        const data = base64(encoded ?? '');
        if (!name || !data || data.length < 5) {
          throw malformed('a signature must be an em dash, a name and base64, separated by spaces');
        }
        return { name, data };
      }),
  };
}

/**
 * Returns the witnesses that have cosigned. A key of the log must have signed; signatures of other keys are ignored.
 *
 * @param {Checkpoint} checkpoint
 * @param {Key[]} log
 * @param {Key[]} witnesses
 */
async function verify({ origin, text, signatures }, log, witnesses) {
  /** @param {Key} key */
  const of = (key) => signatures.filter(({ name, data }) => name === key.name && data.subarray(0, 4).equals(key.id));
  let signed = false;
  for (const key of log.filter(({ name }) => name === origin)) {
    for (const { data } of of(key)) {
      if (!(await valid(key, data.subarray(4), text))) {
        throw new ProofError('invalid_signature', `the signature of ${key.name} is not valid`);
      }
      signed = true;
    }
  }
  if (!signed) {
    throw new ProofError('unknown_log', `none of the given keys of the log has signed the checkpoint of ${origin}`);
  }
  const seen = [];
  for (const key of witnesses) {
    const data = of(key)[0]?.data.subarray(4);
    if (data === undefined) {
      continue;
    }
    const seconds = data.length === 72 ? data.readBigUInt64BE() : -1n;
    if (seconds < 0n || seconds >> 63n || !(await valid(key, data.subarray(8), `cosignature/v1\ntime ${seconds}\n${text}`))) {
      throw new ProofError('invalid_signature', `the cosignature of ${key.name} is not valid`);
    }
    seen.push({ name: key.name, at: new Date(Number(seconds) * 1000) });
  }
  return seen;
}

/**
 * @param {Key} key
 * @param {Uint8Array} signature
 * @param {string} text
 */
async function valid({ key }, signature, text) {
  const imported = await crypto.subtle.importKey('raw', key, { name: 'Ed25519' }, false, ['verify']);
  return crypto.subtle.verify({ name: 'Ed25519' }, imported, signature, Buffer.from(text));
}

/**
 * @param {unknown} event
 * @param {{ private: string, recordedAt: string, added: string[] }} extra
 */
function leafOf(event, extra) {
  const copy = structuredClone(event);
  for (const path of extra.added) {
    if (!without(copy, path.split('.'))) {
      throw new ProofError('hidden_value', `the proof leaves out ${path}, which has a value`);
    }
  }
  const entry = canonical({ event: copy, private: extra.private, recordedAt: extra.recordedAt });
  return sha256(Buffer.from([0]), Buffer.from(entry));
}

/**
 * Removes the member of a path. It returns false if the member has a value.
 *
 * @param {any} of
 * @param {string[]} path
 * @returns {boolean}
 */
function without(of, [name = '', ...rest]) {
  if (of === null || typeof of !== 'object' || !Object.hasOwn(of, name)) {
    return true;
  }
  const value = of[name];
  if (rest.length > 0) {
    return without(value, rest);
  }
  if (Array.isArray(of)) {
    return true;
  }
  if (value !== null && value !== '' && value !== 'unknown' && !(Array.isArray(value) && value.length === 0)) {
    return false;
  }
  delete of[name];
  return true;
}

/**
 * Returns canonical JSON (RFC 8785).
 *
 * @param {any} value
 * @returns {string}
 */
function canonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join()}]`;
  }
  if (value !== null && typeof value === 'object') {
    return `{${Object.keys(value)
      .sort()
      .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
      .join()}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

/**
 * Verifies an inclusion proof (RFC 9162, section 2.1.3.2).
 *
 * @param {Buffer} leaf
 * @param {bigint} index
 * @param {bigint} size
 * @param {Buffer[]} path
 * @param {Buffer} root
 */
async function included(leaf, index, size, path, root) {
  if (index >= size) {
    return false;
  }
  let [hash, at, last] = [leaf, index, size - 1n];
  for (const sibling of path) {
    if (last === 0n) {
      return false;
    }
    if (at & 1n || at === last) {
      hash = await sha256(Buffer.from([1]), sibling, hash);
      while (!(at & 1n) && at !== 0n) {
        [at, last] = [at >> 1n, last >> 1n];
      }
    } else {
      hash = await sha256(Buffer.from([1]), hash, sibling);
    }
    [at, last] = [at >> 1n, last >> 1n];
  }
  return last === 0n && hash.equals(root);
}
