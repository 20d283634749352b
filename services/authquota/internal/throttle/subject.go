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

// OfAccount is whoever tries the second factor of an account.
func OfAccount(id string) Subject { return Subject{Account, "account " + id, false} }

// KeysFor is whoever presents keys, to connect them to an account.
func KeysFor(id string) Subject { return Subject{Account, "keys " + id, false} }

// MailTo is whoever has mails sent to an address.
func MailTo(email string) Subject { return Subject{Address, "mail " + email, false} }
