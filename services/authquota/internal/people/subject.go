package people

// AttemptSubject identifies a counter of failures.
type AttemptSubject struct {
	Rule   AttemptRule
	Name   string // stored only as a keyed hash
	Shared bool   // a success removes only its own attempt, not failures of others
}

// AttemptsFromNetwork counts all attempts from the client's network.
func AttemptsFromNetwork(ip string) AttemptSubject {
	return AttemptSubject{NetworkRule, "network " + NetworkOf(ip), true}
}

// AttemptsOnAddress counts attempts on an e-mail address from the client's network, whether or not an account has the address.
func AttemptsOnAddress(email, ip string) AttemptSubject {
	return AttemptSubject{AddressRule, "address " + NetworkOf(ip) + " " + email, false}
}

// AttemptsOnSecondStep counts attempts on the second factor of an account from the client's network.
func AttemptsOnSecondStep(account, ip string) AttemptSubject {
	return AttemptSubject{AddressRule, "second step " + NetworkOf(ip) + " " + account, false}
}

// AttemptsOnAccount counts attempts on the second factor of an account from unknown browsers.
func AttemptsOnAccount(id string) AttemptSubject {
	return AttemptSubject{AccountRule, "account " + id, true}
}

// AttemptsOfDevice counts attempts of a browser that signed in to the account before, by the hash of its secret.
func AttemptsOfDevice(account, hash string) AttemptSubject {
	return AttemptSubject{AddressRule, "device " + hash + " " + account, false}
}

// AttemptsInSession counts attempts within a session.
func AttemptsInSession(id string) AttemptSubject {
	return AttemptSubject{SessionRule, "session " + id, false}
}

// AttemptsToConnect counts attempts to connect keys to an account.
func AttemptsToConnect(id string) AttemptSubject {
	return AttemptSubject{SessionRule, "keys " + id, false}
}

// MailsTo counts mails requested for a purpose: to an address, or for an account.
func MailsTo(purpose, to string) AttemptSubject {
	return AttemptSubject{AddressRule, "mail " + purpose + " " + to, false}
}

// FormsFrom counts forms that send mails from the client's network. Submitting such a form is not a failure.
func FormsFrom(ip string) AttemptSubject {
	return AttemptSubject{NetworkRule, "forms " + NetworkOf(ip), true}
}
