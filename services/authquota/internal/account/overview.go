package account

import "time"

// Overview is what a person sees of an account first.
type Overview struct {
	Active   int        // keys that work and have no successor
	Expiring *time.Time // the next end of one of them
	Asked    int        // requests that an operator has yet to decide
	Ready    int        // approved ones whose keys have yet to be collected
	Called   bool       // whether a key of the account was ever used
}

// InUse is how many of MaxActive keys are in use, pending requests included.
func (o Overview) InUse() int { return o.Active + o.Asked + o.Ready }
