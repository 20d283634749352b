// Tells whether the list and the search return a stored record. index.d.ts documents it.

import { parametersOfSearchFilter } from './parameters.js';

/** @import { Opportunity, SearchFilter } from './types.js' */

/**
 * @param {Opportunity} record
 * @param {SearchFilter} [filter]
 * @param {Date} [now]
 * @returns {boolean}
 */
export function matches(record, filter = {}, now = new Date()) {
  const { country, province, after } = parsed(filter);
  const { company, subcategory, summary, facts, verification } = record;
  const texts = words([company.name, subcategory, summary].join('\n'));
  /** @param {boolean | undefined} wanted @param {boolean | null} fact */
  const meets = (wanted, fact) => wanted === undefined || wanted === fact;
  return (!country || facts.countryEligibility.some((entry) => covers(entry, country, province)))
    && meets(filter.remote, facts.remote)
    && meets(filter.verified, verified(verification, now))
    && meets(filter.degreeRequired, facts.degreeRequired)
    && meets(filter.experienceRequired, facts.experienceRequired)
    && meets(filter.flexible, facts.flexibleSchedule)
    && (filter.category === undefined || filter.category === record.category)
    && (after === undefined || (verification.lastCheckedAt !== null && instant(verification.lastCheckedAt) >= after))
    && begin(words(filter.q ?? ''), texts)
    && (filter.applicationStatus === undefined || filter.applicationStatus === facts.applicationStatus)
    && (filter.language === undefined || facts.languages.some((name) => begin(words(filter.language ?? ''), words(name))))
    && (filter.payUnit === undefined || filter.payUnit === facts.pay?.unit)
    && (filter.subcategory === undefined || words(filter.subcategory).join(' ') === words(subcategory ?? '').join(' '));
}

/**
 * Reports whether the status is `verified` at a time, or null without a review.
 *
 * @param {Opportunity['verification']} verification
 * @param {Date} now
 */
function verified({ status, freshUntil, reviewCount }, now) {
  if (reviewCount === 0) return null;
  return (status === 'verified' || status === 'stale') && freshUntil !== null && now.getTime() <= Date.parse(freshUntil);
}

/**
 * Reports whether residents of a country are eligible and, if a province is given, whether a source says so of it.
 *
 * @param {Opportunity['facts']['countryEligibility'][number]} entry
 * @param {string} country
 * @param {string} province
 */
function covers(entry, country, province) {
  if (entry.country !== country || entry.status !== 'eligible') return false;
  return !province || (entry.sourceUrls.length > 0 && !entry.excludedRegions.includes(province)
    && (entry.allRegions === true || entry.includedRegions.includes(province)));
}

/**
 * Returns the values that have several forms, in that of records. Throws a TypeError for a filter that the API rejects.
 *
 * @param {SearchFilter} filter
 */
function parsed(filter) {
  for (const name of Object.keys(filter)) {
    if (!(name in parametersOfSearchFilter)) throw unknownFilter(name, parametersOfSearchFilter);
  }
  const { q, language, subcategory, checkedAfter } = filter;
  const country = (filter.country ?? '').toUpperCase();
  const province = (filter.province ?? '').toUpperCase();
  if (filter.country !== undefined && !/^[A-Z]{2}$/.test(country)) {
    throw new TypeError(`opportunity: invalid country "${filter.country}": use two letters, such as CA`);
  }
  if (filter.province !== undefined && !/^(CA-)?(AB|BC|MB|NB|NL|NS|NT|NU|ON|PE|QC|SK|YT)$/.test(province)) {
    throw new TypeError(`opportunity: invalid province "${filter.province}": use a Canadian province, such as ON or CA-ON`);
  }
  if (province && country !== 'CA') throw new TypeError('opportunity: province needs country CA');
  for (const text of [q, language, subcategory]) {
    if (text !== undefined && words(text).length === 0) {
      throw new TypeError(`opportunity: invalid text "${text}": it needs a letter or a digit`);
    }
  }
  const after = checkedAfter instanceof Date ? checkedAfter.toISOString() : checkedAfter;
  return { country, province: province && `CA-${province.replace('CA-', '')}`, after: after === undefined ? undefined : instant(after) };
}

/**
 * Returns the error for a filter without a parameter. It names pageSize for limit, the name of the parameter.
 *
 * @param {string} name
 * @param {Readonly<Record<string, string>>} parameters
 */
export function unknownFilter(name, parameters) {
  const own = Object.entries(parameters).find(([, parameter]) => parameter === name)?.[0];
  return new TypeError(`opportunity: unknown filter ${name}${own ? `; use ${own}` : ''}`);
}

// The forms of ISO 8601 that name a day or an instant, extended and basic.
const INSTANTS = [
  /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d))?)?(?:[.,](\d+))?(?:Z|([+-]\d\d)(?::?(\d\d))?))?$/,
  /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(?:(\d\d)(\d\d)?)?(?:[.,](\d+))?(?:Z|([+-]\d\d)(?::?(\d\d))?))?$/,
];

/**
 * Returns an instant in nanoseconds since 1970.
 *
 * @param {string} text
 */
function instant(text) {
  const parts = INSTANTS.map((form) => form.exec(text)).find(Boolean) ?? [];
  const number = (/** @type {number} */ group) => Number(parts[group] ?? 0);
  const [hour, minute, second, offsetHour, offsetMinute] = [number(4), number(5), number(6), number(8), number(9)];
  const start = new Date(`${parts[1]}-${parts[2]}-${parts[3]}T00:00:00Z`);
  const unit = parts[5] === undefined ? 3600n : parts[6] === undefined ? 60n : 1n; // seconds of the fraction
  const rest = BigInt(((parts[7] ?? '') + '000000000').slice(0, 9)) * unit;
  const endOfDay = hour === 24 && minute === 0 && second === 0 && rest === 0n;
  if (start.getUTCDate() !== number(3) || !(hour < 24 || endOfDay) || minute > 59 || second > 59
    || Math.abs(offsetHour) > 23 || offsetMinute > 59) {
    throw new TypeError(`opportunity: invalid time "${text}": use a date, or a timestamp with an offset`);
  }
  const offset = offsetHour * 60 + (parts[8]?.startsWith('-') ? -offsetMinute : offsetMinute);
  const seconds = start.getTime() / 1000 + hour * 3600 + (minute - offset) * 60 + second;
  return BigInt(seconds) * 1_000_000_000n + rest;
}

// Letters whose decomposition is not what people type for them.
/** @type {Record<string, string>} */
const SPELLED = { ß: 'ss', œ: 'oe', æ: 'ae', ø: 'o', đ: 'd', ð: 'd', ł: 'l', þ: 'th', ħ: 'h', ı: 'i', ς: 'σ' };

/**
 * Returns the words of text in the form in which the search compares them: without case, accents and Unicode forms.
 *
 * @param {string} text
 */
function words(text) {
  const plain = text.normalize('NFKD').toLowerCase().replace(/[\p{M}\p{Cf}]/gu, '').replace(/[ßœæøđðłþħıς]/g, (letter) => SPELLED[letter] ?? '');
  return plain.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/**
 * Reports whether each of the words begins one of text.
 *
 * @param {string[]} words
 * @param {string[]} text
 */
function begin(words, text) {
  return words.every((word) => text.some((of) => of.startsWith(word)));
}
