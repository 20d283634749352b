// Verification of the proofs of single events (C2SP tlog-proof), without a network. index.d.ts documents it.

import { Buffer } from 'node:buffer';

/** @import { VerificationEvent, Proof, ProofKeys, ProofReason } from './index.js' */

/**
 * @typedef {{ name: string, id: Buffer, key: Buffer }} Key
 * @typedef {{ origin: string, size: bigint, root: Buffer, text: string, signatures: { name: string, data: Buffer }[] }} Checkpoint
 */

export const PROOF_VERSION = 'c2sp.org/tlog-proof@v1';

const MAX_PROOF = 128 << 10; // bytes; room for 16 signatures of any kind
const END_OF_TIME = 253402300800n; // the first second that a date with four digits cannot express

/** An event that is not proved. */
export class ProofError extends Error {
  /**
   * @param {ProofReason} reason
   * @param {string} message
   */
  constructor(reason, message) {
    super(`not proved: ${message}`);
    this.name = 'ProofError';
    this.reason = reason;
  }
}

/**
 * @param {string} proof
 * @param {ProofKeys} keys
 * @returns {Promise<Proof>}
 */
export async function verifyEvent(proof, keys) {
  return new Verifier(await import('node:crypto')).verify(proof, keys);
}

/** Verifies with a module of hashes and signatures, which is loaded only for that. */
class Verifier {
  #crypto;

  /** @param {typeof import('node:crypto')} crypto */
  constructor(crypto) {
    this.#crypto = crypto;
  }

  /**
   * @param {string} proof
   * @param {ProofKeys} keys
   * @returns {Proof}
   */
  verify(proof, { log, witnesses = [], quorum = 0 }) {
    const logKeys = log.map((text) => this.#parseKey(text, 1));
    const witnessKeys = this.#parseWitnesses(witnesses, quorum);
    const { index, path, leaf, checkpoint } = parseProof(proof);
    this.#checkSigned(checkpoint, logKeys);
    const seen = witnessKeys.flatMap((key) => this.#seenBy(key, checkpoint));
    const want = quorum || witnesses.length;
    if (seen.length < want) {
      const message = `${seen.length} of the ${witnesses.length} given witnesses have cosigned the checkpoint, want ${want}`;
      throw new ProofError('not_witnessed', message);
    }
    if (!this.#included(this.#sha256(Buffer.from([0]), leaf), index, checkpoint.size, path, checkpoint.root)) {
      throw new ProofError('not_included', 'the event differs from the one that was recorded, or the proof is of another event');
    }
    const { origin, size } = checkpoint;
    return { ...parseLeaf(leaf), origin, size: Number(size), index: Number(index), witnesses: seen };
  }

  /** @param {Uint8Array[]} parts */
  #sha256(...parts) {
    const hash = this.#crypto.createHash('sha256');
    parts.forEach((part) => hash.update(part));
    return hash.digest();
  }

  /**
   * @param {Key} key
   * @param {Buffer} signature
   * @param {string} text
   */
  #valid({ key }, signature, text) {
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.toString('base64url') };
    return this.#crypto.verify(null, Buffer.from(text), this.#crypto.createPublicKey({ key: jwk, format: 'jwk' }), signature);
  }

  /**
   * Parses a verifier key of a kind: 1 for notes, 4 for cosignatures.
   *
   * @param {string} text
   * @param {number} kind
   * @returns {Key}
   */
  #parseKey(text, kind) {
    const [, name, id, encoded] = /^([^+]+)\+([^+]*)\+([^]*)$/.exec(text) ?? [];
    const data = decode(encoded ?? '');
    if (!name || data?.length !== 33 || data[0] !== kind) {
      throw new ProofError('malformed_key', `"${text}" is not an Ed25519 key of type ${kind}, such as name+0badc0de+base64`);
    }
    const sum = this.#sha256(Buffer.from(`${name}\n`), data).subarray(0, 4);
    if (id !== sum.toString('hex')) {
      throw new ProofError('malformed_key', `the id of the key "${text}" is not that of its name and key`);
    }
    return { name, id: sum, key: data.subarray(1) };
  }

  /**
   * Parses the keys of witnesses. A witness whose key is given twice would count twice, so that is an error.
   *
   * @param {readonly string[]} all
   * @param {number} quorum
   */
  #parseWitnesses(all, quorum) {
    const keys = all.map((text) => this.#parseKey(text, 4));
    const twice = keys.find(({ key }, i) => keys.slice(0, i).some((other) => other.key.equals(key)));
    if (twice) {
      throw new ProofError('malformed_key', `the key of the witness ${twice.name} is given twice`);
    }
    if (!Number.isInteger(quorum) || quorum < 0 || quorum > keys.length) {
      throw new ProofError('malformed_key', `the quorum is ${quorum} and ${keys.length} witnesses are given`);
    }
    return keys;
  }

  /**
   * Throws unless a key of the log has signed. Signatures of other keys are ignored.
   *
   * @param {Checkpoint} checkpoint
   * @param {Key[]} keys
   */
  #checkSigned(checkpoint, keys) {
    let signed = false;
    for (const key of keys.filter(({ name }) => name === checkpoint.origin)) {
      for (const signature of signaturesBy(key, checkpoint)) {
        if (!this.#valid(key, signature, checkpoint.text)) {
          throw new ProofError('invalid_signature', `the signature of ${key.name} is not valid`);
        }
        signed = true;
      }
    }
    if (!signed) {
      throw new ProofError('unknown_log', `none of the given keys of the log has signed the checkpoint of ${checkpoint.origin}`);
    }
  }

  /**
   * Returns when a witness has seen the checkpoint, or nothing. Each of its signatures must be valid; the first one counts.
   *
   * @param {Key} key
   * @param {Checkpoint} checkpoint
   */
  #seenBy(key, checkpoint) {
    const times = signaturesBy(key, checkpoint).map((signature) => {
      const seconds = signature.length === 72 ? signature.readBigUInt64BE() : END_OF_TIME;
      const message = `cosignature/v1\ntime ${seconds}\n${checkpoint.text}`;
      if (seconds >= END_OF_TIME || !this.#valid(key, signature.subarray(8), message)) {
        throw new ProofError('invalid_signature', `the cosignature of ${key.name} is not valid`);
      }
      return { name: key.name, at: new Date(Number(seconds) * 1000) };
    });
    return times.slice(0, 1);
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
  #included(leaf, index, size, path, root) {
    if (index >= size) {
      return false;
    }
    let [hash, at, last] = [leaf, index, size - 1n];
    for (const sibling of path) {
      if (last === 0n) {
        return false;
      }
      if (at & 1n || at === last) {
        hash = this.#sha256(Buffer.from([1]), sibling, hash);
        while (!(at & 1n) && at !== 0n) {
          [at, last] = [at >> 1n, last >> 1n];
        }
      } else {
        hash = this.#sha256(Buffer.from([1]), hash, sibling);
      }
      [at, last] = [at >> 1n, last >> 1n];
    }
    return last === 0n && hash.equals(root);
  }
}

/**
 * Returns the signatures with the name and the id of a key.
 *
 * @param {Key} key
 * @param {Checkpoint} checkpoint
 */
function signaturesBy(key, { signatures }) {
  return signatures.filter(({ name, data }) => name === key.name && data.subarray(0, 4).equals(key.id)).map(({ data }) => data.subarray(4));
}

/**
 * Returns the error of a line, which counts from 0.
 *
 * @param {number} line
 * @param {string} want
 */
function malformed(line, want) {
  return new ProofError('malformed_proof', `malformed proof: line ${line + 1}: want ${want}`);
}

/**
 * Decodes base64 in its one form.
 *
 * @param {string} text
 */
function decode(text) {
  const data = Buffer.from(text, 'base64');
  return data.toString('base64') === text ? data : undefined;
}

/**
 * Returns the lines of a text. Each ends with a line feed, the last one too.
 *
 * @param {string} text
 */
function linesOf(text) {
  const lines = text.split('\n');
  const wrong = lines.findIndex((line) => /[\0-\x1f]/.test(line) || loneSurrogate.test(line));
  if (wrong >= 0) {
    throw malformed(wrong, 'text in UTF-8 without control characters');
  }
  const size = Buffer.byteLength(text);
  if (size > MAX_PROOF) {
    throw new ProofError('malformed_proof', `malformed proof: it has ${size} bytes, want at most ${MAX_PROOF}`);
  }
  if (lines.pop() !== '') {
    throw malformed(lines.length, 'a line feed at the end');
  }
  return lines;
}

const loneSurrogate = /\p{Surrogate}/u;

/**
 * Parses a proof strictly: each has one form.
 *
 * @param {string} text
 */
function parseProof(text) {
  const lines = linesOf(text);
  if (lines[0] !== PROOF_VERSION) {
    throw malformed(0, PROOF_VERSION);
  }
  const leaf = lines[1]?.startsWith('extra ') ? decode(lines[1].slice(6)) : undefined;
  if (!leaf) {
    throw malformed(1, '"extra " and the event in base64');
  }
  const index = parseSize(lines[2]?.startsWith('index ') ? lines[2].slice(6) : '');
  if (index === undefined) {
    throw malformed(2, '"index " and a decimal number');
  }
  const path = [];
  let next = 3;
  for (; lines[next]; next++) {
    const hash = parseHash(lines[next]);
    if (!hash || path.length === 63) {
      throw malformed(next, 'at most 63 hashes, each base64 of 32 bytes, and an empty line');
    }
    path.push(hash);
  }
  return { leaf, index, path, checkpoint: parseCheckpoint(lines, next + 1) };
}

/**
 * Returns the event of a leaf, and the time at which the log says that it recorded the event.
 *
 * @param {Buffer} leaf
 * @returns {{ event: VerificationEvent, recordedAt: string }}
 */
function parseLeaf(leaf) {
  try {
    const { event, recordedAt } = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(leaf));
    if (event !== null && typeof event === 'object' && !Array.isArray(event) && typeof recordedAt === 'string' && isTime(recordedAt)) {
      return { event, recordedAt };
    }
  } catch {
    // reported below
  }
  throw new ProofError('malformed_event', 'the log has recorded something that is not an event');
}

/** @param {string} text */
function isTime(text) {
  const [, second] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,6})?Z$/.exec(text) ?? [];
  const date = new Date(`${second}Z`);
  return second !== undefined && !Number.isNaN(date.getTime()) && date.toISOString().startsWith(second);
}

/**
 * Parses the checkpoint that begins at a line.
 *
 * @param {string[]} lines
 * @param {number} first
 * @returns {Checkpoint}
 */
function parseCheckpoint(lines, first) {
  const [origin, size, root] = [lines[first], parseSize(lines[first + 1]), parseHash(lines[first + 2])];
  if (!origin) {
    throw malformed(first, 'the name of the log, which begins a checkpoint');
  }
  if (size === undefined) {
    throw malformed(first + 1, 'the size of the checkpoint, a decimal number');
  }
  if (!root) {
    throw malformed(first + 2, 'the root hash of the checkpoint, base64 of 32 bytes');
  }
  if (lines[first + 3] !== '') {
    throw malformed(first + 3, 'an empty line after the three of the checkpoint');
  }
  const signatures = [];
  for (let i = first + 4; i < Math.max(lines.length, first + 5); i++) {
    const [, name, encoded] = /^— ([^ ]+) (.*)$/u.exec(lines[i] ?? '') ?? [];
    const data = decode(encoded ?? '');
    if (!name || !data || data.length < 5) {
      throw malformed(i, 'a signature: an em dash, a name and base64, separated by spaces');
    }
    signatures.push({ name, data });
  }
  return { origin, size, root, text: lines.slice(first, first + 3).join('\n') + '\n', signatures };
}

/**
 * Parses a decimal number without leading zeros, below 2^53.
 *
 * @param {string | undefined} text
 */
function parseSize(text) {
  return text && /^(0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text)) ? BigInt(text) : undefined;
}

/** @param {string | undefined} text */
function parseHash(text) {
  const hash = decode(text ?? '');
  return hash?.length === 32 ? hash : undefined;
}
