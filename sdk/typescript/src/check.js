// Tells whether the body of a response is one of the API. A proxy also answers with 200 and JSON, and a copy must not lose its records
// because of it. Each function returns what is wrong with a body, or ''.

/** @param {any} body */
export function checkRecords(body) {
  return checkPage(body, isRecord);
}

/** @param {any} body */
export function checkEvents(body) {
  return checkPage(body, (event) => isText(event?.id));
}

/** @param {any} body */
export function checkChanges(body) {
  if (!isText(body?.pagination?.cursor)) return 'pagination.cursor is missing';
  return checkPage(body, (change) => isText(change?.id) && isText(change.change) && isText(change.cursor));
}

/** @param {any} body */
export function checkDetail(body) {
  return isRecord(body?.data) ? checkMeta(body) : 'data is not a record';
}

/**
 * @param {any} body
 * @param {(item: any) => boolean} isItem
 */
function checkPage(body, isItem) {
  const { limit, hasMore, next } = body?.pagination ?? {};
  if (!Array.isArray(body?.data)) return 'data is not a list';
  if (!Number.isInteger(limit) || limit < 1) return 'pagination.limit is not a positive number';
  if (typeof hasMore !== 'boolean') return 'pagination.hasMore is not a boolean';
  if (hasMore && !isText(next)) return 'pagination.next is missing';
  const incomplete = body.data.findIndex((/** @type {any} */ item) => !isItem(item));
  return incomplete < 0 ? checkMeta(body) : `data[${incomplete}] is incomplete`;
}

/** @param {any} body */
function checkMeta(body) {
  return body.meta?.version === '1' ? '' : 'meta.version is not "1"';
}

/** @param {any} record */
function isRecord(record) {
  const { verification } = record ?? {};
  return isText(record?.id) && isObject(verification) && isTimeOrNull(verification.lastCheckedAt) && isTimeOrNull(verification.freshUntil);
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @param {unknown} value */
function isText(value) {
  return typeof value === 'string' && value !== '';
}

/** @param {any} value */
function isTimeOrNull(value) {
  return value === null || (isText(value) && !Number.isNaN(Date.parse(value)));
}
