// Shows what a program does about each kind of error.
import { Code, OpportunityClient, OpportunityError } from 'opportunity-data';

const client = new OpportunityClient();
for (const id of ['maple-scribe', 'no-such-record']) {
  try {
    const { data } = await client.opportunity(id);
    console.log(`${id}: ${data.verification.status}`);
  } catch (error) { // the client has retried already
    if (!(error instanceof OpportunityError)) {
      throw error;
    }
    switch (error.code) {
      case Code.notFound:
        console.log(`${id}: remove the record`);
        break;
      case Code.missingApiKey:
      case Code.invalidApiKey:
      case Code.expiredApiKey:
      case Code.revokedApiKey:
        console.log(`${id}: get another key`);
        break;
      case Code.subscriptionRequired:
      case Code.accountSuspended:
        console.log(`${id}: ask the owner of the account`);
        break;
      case Code.minuteLimitReached:
      case Code.dailyLimitReached:
      case Code.serviceCapacityReached:
        console.log(`${id}: continue in ${error.retryAfter} s`);
        break;
      case 'connection_failed':
      case Code.serviceUnavailable:
      case Code.internalError:
        console.log(`${id}: continue later`);
        break;
      default:
        console.log(`${id}: fix the program: ${error.message}, see ${error.documentation}`);
    }
  }
}
