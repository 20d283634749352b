package keys

import (
	"strings"
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// Request is a person's request for a key. An operator decides it. The key is created when the person collects it, so only its holder
// ever sees it.
type Request struct {
	ID          string
	Account     string
	Name        string
	UseCase     string
	Test        bool // for the account's test key, which needs no operator
	State       RequestState
	Reason      string // of a declined one
	RequestedAt time.Time
	DecidedAt   *time.Time // nil while it waits for the operator
	DecidedBy   string
}

// Prefix returns the prefix of the requested key.
func (r Request) Prefix() string { return prefixOf(r.Test) }

// RequestState is the state of a request.
type RequestState string

const (
	Pending   RequestState = "asked"     // waits for the operator
	Approved  RequestState = "approved"  // waits for the person to collect the key
	Declined  RequestState = "declined"  // with a reason
	Collected RequestState = "collected" // has become a key
	Withdrawn RequestState = "withdrawn" // by the person
)

// Open reports whether the request may still become a key. Open requests count towards MaxActive.
func (s RequestState) Open() bool { return s == Pending || s == Approved }

// NewRequestID makes the id of a request. Ids made later sort later.
func NewRequestID() string { return account.NewIDOf("req_") }

// CheckRequestID returns RequestNotFound for an id that cannot be a request's.
func CheckRequestID(id string) error {
	if !account.ValidID("req_", id) {
		return RequestNotFound()
	}
	return nil
}

// RequestNotFound returns the error for an unknown request id.
func RequestNotFound() error {
	return problem.New(problem.NotFound, "There is no request with this id.")
}

// RequestedKey describes the key that a person requests.
type RequestedKey struct {
	Name    string
	UseCase string
	Test    bool // the account's test key
}

// UseCase validates a use case and replaces its line breaks by spaces.
func UseCase(s string) (string, error) { return account.Text("useCase", breaks.Replace(s)) }

var breaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// Decide is an operator's decision on a request.
type Decide struct {
	State  RequestState // Approved or Declined
	Reason string       // of Declined; the mail to the person quotes it
}

// Approve lets the person collect the key.
func Approve() Decide { return Decide{State: Approved} }

// Decline rejects the request, with a reason for the person.
func Decline(reason string) (Decide, error) {
	reason, err := account.Text("reason", reason)
	return Decide{Declined, reason}, err
}

// Apply decides an undecided request. Repeating its decision changes nothing and is no error; every other decision is rejected with
// the one that was made.
func (d Decide) Apply(r *Request, by string, now time.Time) (changed bool, err error) {
	made := r.State
	if made == Collected {
		made = Approved
	}
	switch made {
	case Pending:
		r.State, r.Reason, r.DecidedAt, r.DecidedBy = d.State, d.Reason, &now, by
		return true, nil
	case d.State:
		return false, nil
	case Withdrawn:
		return false, problem.New(problem.InvalidParameter, "This request was withdrawn, so it can no longer be %s.", d.State)
	case Approved:
		return false, problem.New(problem.InvalidParameter,
			"This request was approved by %s on %s. A decision is final: revoke the key if its holder must not use it.", r.DecidedBy, account.When(*r.DecidedAt))
	}
	return false, problem.New(problem.InvalidParameter,
		"This request was declined by %s on %s. A decision is final: the person can send a new request.", r.DecidedBy, account.When(*r.DecidedAt))
}
