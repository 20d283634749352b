package keys

import "time"

// Overview is the summary on the home page of the account.
type Overview struct {
	Active   int        // active keys without a successor
	Expiring *time.Time // the earliest expiry of these
	Pending  int        // undecided requests
	Ready    int        // approved requests whose keys were not collected yet
	Called   bool       // whether any key of the account was ever used
}

// InUse returns the number of MaxActive keys in use, pending requests included.
func (o Overview) InUse() int { return o.Active + o.Pending + o.Ready }
