// Shows what a program does about each kind of error.
import { Code, OpportunityClient, OpportunityError } from 'opportunity-data';

const client = new OpportunityClient();
for (const id of ['maple-scribe', 'no-such-record']) {
  try {
    const { data } = await client.opportunity(id);
    console.log(`${id}: ${data.verification.status}`);
  } catch (error) {
    console.log(`${id}: ${advice(error)}`);
  }
}

/** Returns what to do about a failed call. The client has retried already. */
function advice(error) {
  if (!(error instanceof OpportunityError)) {
    throw error;
  }
  switch (error.code) {
    case Code.notFound:
      return 'remove the record';
    case Code.missingApiKey:
    case Code.invalidApiKey:
    case Code.expiredApiKey:
    case Code.revokedApiKey:
      return 'get another key';
    case Code.subscriptionRequired:
    case Code.accountSuspended:
      return 'ask the owner of the account';
    case Code.minuteLimitReached:
    case Code.dailyLimitReached:
    case Code.serviceCapacityReached:
      return `continue in ${error.retryAfter} s`;
    case 'connection_failed':
    case Code.serviceUnavailable:
    case Code.internalError:
      return 'continue later';
    default:
      return `fix the program: ${error.message}, see ${error.documentation}`;
  }
}
