package throttle

// Subject is somebody whose failures are counted.
type Subject struct {
	Rule   Rule
	Name   string // kept only as a keyed hash
	Shared bool   // a right answer takes back its own try and no failures of others
}

// FromNetwork is everybody in the network of a client.
func FromNetwork(ip string) Subject { return Subject{Network, "network " + NetworkOf(ip), true} }

// OfAddress is whoever tries an address from the network of a client, whether or not anybody has that address.
func OfAddress(email, ip string) Subject {
	return Subject{Address, "address " + NetworkOf(ip) + " " + email, false}
}

// OfSecondStep is whoever tries the second factor of an account from the network of a client.
func OfSecondStep(account, ip string) Subject {
	return Subject{Address, "second step " + NetworkOf(ip) + " " + account, false}
}

// OfAccount is whoever tries the second factor of an account, from browsers that it does not know.
func OfAccount(id string) Subject { return Subject{Account, "account " + id, true} }

// OfDevice is a browser that has signed in to an account before, by the hash of its secret.
func OfDevice(account, hash string) Subject {
	return Subject{Address, "device " + hash + " " + account, false}
}

// OfSession is who has come in, as far as that is, and is asked for something again.
func OfSession(id string) Subject { return Subject{Inside, "session " + id, false} }

// KeysFor is whoever presents keys, to connect them to an account.
func KeysFor(id string) Subject { return Subject{Inside, "keys " + id, false} }

// MailTo is whoever has mails sent for a purpose: to an address, or for an account.
func MailTo(purpose, to string) Subject { return Subject{Address, "mail " + purpose + " " + to, false} }

// FormsFrom is everybody in the network of a client who fills in forms that send mails. That is no failure, and counts as none.
func FormsFrom(ip string) Subject { return Subject{Network, "forms " + NetworkOf(ip), true} }
