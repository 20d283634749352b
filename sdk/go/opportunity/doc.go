// Package opportunity is the client of the Opportunity Data API: reviewed records of platforms on
// which people earn, with the sources and check dates behind each fact.
//
//	client, err := opportunity.New() // reads OPPORTUNITY_URL and OPPORTUNITY_KEY
//	if err != nil {
//		return err
//	}
//	filter := opportunity.Filter{Country: "CA", Remote: opportunity.True}
//	for record, err := range client.Opportunities(ctx, filter) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(record.ID, record.Verification.Status)
//	}
//
// # Three values
//
// A fact is true, false or unknown: a [Tri]. A missing value is a nil pointer. No filter matches an
// unknown fact.
//
// # Errors and retries
//
// Every failed call returns an [*Error]. The client waits and retries when the minute limit is
// reached, when the service fails (5xx) and when the connection fails, until it has waited for the
// retry budget. It never waits for the next day: a used-up daily quota or shared capacity is an
// error at once.
//
// # Keeping a copy
//
// [Client.Sync] keeps a local copy equal to what the account can read.
package opportunity
