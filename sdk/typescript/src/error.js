/** A failed call. Its text never contains the key. */
export class OpportunityError extends Error {
  /** @param {{status?: number, code: string, message: string, requestId?: string, retryAfter?: number, documentation?: string, cause?: unknown}} details */
  constructor({ status = 0, code, message, requestId = '', retryAfter = 0, documentation = '', cause }) {
    super(`${code}: ${message}${status === 0 ? '' : ` (status ${status}, request ${requestId})`}`, { cause });
    this.name = 'OpportunityError';
    this.detail = message;
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
    this.documentation = documentation;
  }
}

/**
 * Returns the error of a response that is not a 200 or 304.
 *
 * @param {import('./request.js').Reply} reply
 * @param {number} retryAfter
 */
export function responseError(reply, retryAfter) {
  const details = {
    status: reply.status,
    code: 'invalid_response',
    message: 'the response is not an error of the API',
    requestId: reply.requestId,
    retryAfter,
    documentation: '',
  };
  try {
    const { error, documentation } = JSON.parse(reply.body);
    const { code, message } = error;
    if (code !== '' && [code, message, documentation].every((text) => typeof text === 'string')) {
      return new OpportunityError({ ...details, code, message, documentation });
    }
  } catch {
    // not JSON, or without an error: the details above describe it
  }
  return new OpportunityError(details);
}
