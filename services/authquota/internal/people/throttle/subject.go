package throttle

// Subject identifies a counter of failures.
type Subject struct {
	Rule   Rule
	Name   string // stored only as a keyed hash
	Shared bool   // a success removes only its own attempt, not failures of others
}

// FromNetwork counts all attempts from the client's network.
func FromNetwork(ip string) Subject { return Subject{Network, "network " + NetworkOf(ip), true} }

// OfAddress counts attempts on an e-mail address from the client's network, whether or not an account has the address.
func OfAddress(email, ip string) Subject {
	return Subject{Address, "address " + NetworkOf(ip) + " " + email, false}
}

// OfSecondStep counts attempts on the second factor of an account from the client's network.
func OfSecondStep(account, ip string) Subject {
	return Subject{Address, "second step " + NetworkOf(ip) + " " + account, false}
}

// OfAccount counts attempts on the second factor of an account from unknown browsers.
func OfAccount(id string) Subject { return Subject{Account, "account " + id, true} }

// OfDevice counts attempts of a browser that signed in to the account before, by the hash of its secret.
func OfDevice(account, hash string) Subject {
	return Subject{Address, "device " + hash + " " + account, false}
}

// OfSession counts attempts within a session.
func OfSession(id string) Subject { return Subject{Inside, "session " + id, false} }

// KeysFor counts attempts to connect keys to an account.
func KeysFor(id string) Subject { return Subject{Inside, "keys " + id, false} }

// MailTo counts mails requested for a purpose: to an address, or for an account.
func MailTo(purpose, to string) Subject { return Subject{Address, "mail " + purpose + " " + to, false} }

// FormsFrom counts forms that send mails from the client's network. Submitting such a form is not a failure.
func FormsFrom(ip string) Subject { return Subject{Network, "forms " + NetworkOf(ip), true} }
