package people

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// AttemptRule computes delays for one kind of subject. It slows guessing down and never locks an
// account: the right value is accepted after a delay, and each delay is bounded.
//
// Failures are counted per subject:
//
//   - An email address together with the client's network, so that an attacker elsewhere cannot
//     delay the owner.
//   - A network, against attempts on many addresses.
//   - For the second factor, an account together with the network, and the account alone against
//     attempts from many networks, except from browsers known to the account.
//   - A session, for confirmations within it.
//
// Addresses without an account are counted in the same way, so that a delay reveals nothing. The
// counts are in the database, which signing in needs anyway, so that a Redis outage does not
// prevent it.
type AttemptRule struct {
	Free   int           // failures without a delay
	First  time.Duration // delay after the next failure; it doubles with each further one
	Most   time.Duration // maximum delay
	Forget time.Duration // failures are forgotten after this time without one
}

// The rules.
var (
	AddressRule = AttemptRule{Free: 9, First: 30 * time.Second, Most: 15 * time.Minute, Forget: 24 * time.Hour}
	NetworkRule = AttemptRule{Free: 100, First: 30 * time.Second, Most: 15 * time.Minute, Forget: time.Hour}
	AccountRule = AttemptRule{Free: 100, First: 30 * time.Second, Most: time.Minute, Forget: time.Hour}
	SessionRule = AttemptRule{Free: 9, First: 30 * time.Second, Most: time.Minute, Forget: 24 * time.Hour}
	ActRule     = AttemptRule{Free: 30, First: 15 * time.Minute, Most: time.Hour, Forget: time.Hour}
	TestKeyRule = AttemptRule{Free: 19, First: 24 * time.Hour, Most: 24 * time.Hour, Forget: 24 * time.Hour}
)

// Wait returns the remaining delay at now after a number of failures with the last one at last, or
// 0.
func (r AttemptRule) Wait(failures int, last, now time.Time) time.Duration {
	if failures <= r.Free || now.Sub(last) >= r.Forget {
		return 0
	}
	cost := min(r.First<<min(failures-r.Free-1, 10), r.Most)
	// a last in the future, after the clock was set back, does not increase the delay
	return max(0, min(cost, last.Add(cost).Sub(now)))
}

// Count returns the number of failures after another one at now.
func (r AttemptRule) Count(failures int, last, now time.Time) int {
	if now.Sub(last) >= r.Forget {
		return 1
	}
	return failures + 1
}

// NetworkOf returns the network of an IP address: /24 for IPv4, /48 for IPv6. An attacker may
// control all addresses of such a network. Invalid addresses share one network.
func NetworkOf(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return "unknown"
	}
	return network.String()
}

// AttemptSubject identifies a counter of failures.
type AttemptSubject struct {
	Rule   AttemptRule
	Name   string // stored only as a keyed hash
	Shared bool   // a success removes only its own attempt, not failures of others
}

// Of returns the subject of a kind that the parts identify.
func (s AttemptSubject) Of(parts ...string) AttemptSubject {
	s.Name += " " + strings.Join(parts, " ")
	return s
}

// The kinds of subjects, with the parts that identify one. A network is that of NetworkOf.
var (
	AttemptsFromNetwork  = AttemptSubject{NetworkRule, "network", true}      // network
	AttemptsOnAddress    = AttemptSubject{AddressRule, "address", false}     // network, email address
	AttemptsOnSecondStep = AttemptSubject{AddressRule, "second step", false} // network, account: its second factor
	AttemptsOnAccount    = AttemptSubject{AccountRule, "account", true}      // account, by unknown browsers
	AttemptsOfDevice     = AttemptSubject{AddressRule, "device", false}      // hash of a known browser, account
	AttemptsInSession    = AttemptSubject{SessionRule, "session", false}     // session
	AttemptsToConnect    = AttemptSubject{SessionRule, "keys", false}        // account

	// Not failures. Resets of passwords of existing accounts are counted apart from other forms that
	// send mails, so that these cannot use up their share.
	ActsOf       = AttemptSubject{ActRule, "acts", false}         // account: acts that issue, mail or write
	MailsTo      = AttemptSubject{AddressRule, "mail", false}     // purpose, address or account
	ResetsFrom   = AttemptSubject{NetworkRule, "resets", true}    // network
	FormsFrom    = AttemptSubject{NetworkRule, "forms", true}     // network
	TestKeysFrom = AttemptSubject{TestKeyRule, "test keys", true} // network: those without an operator
)

type attemptRow struct {
	Subject  string `gorm:"primaryKey"`
	Failures int
	LastAt   int64
}

func (attemptRow) TableName() string { return "attempts" }

// CountAttempt counts an attempt for all subjects before its outcome is known, so that concurrent
// attempts do not avoid the delay. If a subject must wait, it returns the longest delay and counts
// nothing. The change that the attempt leads to removes it from the counts.
func (s *Store) CountAttempt(ctx context.Context, subjects ...AttemptSubject) (wait time.Duration, err error) {
	subjects = inOrder(subjects)
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		rows := make([]attemptRow, len(subjects))
		wait = 0
		for i, subject := range subjects {
			// One statement creates or finds the row and locks it in both cases, even if a
			// concurrent success deletes it.
			err := tx.Raw(`INSERT INTO attempts (subject, failures, last_at) VALUES (?, 0, 0)
				ON CONFLICT (subject) DO UPDATE SET failures = attempts.failures RETURNING *`,
				attemptName(tx, subject)).Scan(&rows[i]).Error
			if err != nil {
				return err
			}
			wait = max(wait, subject.Rule.Wait(rows[i].Failures, database.FromMicros(rows[i].LastAt), tx.Now))
		}
		if wait > 0 {
			return nil
		}
		for i, subject := range subjects {
			rows[i].Failures = subject.Rule.Count(rows[i].Failures, database.FromMicros(rows[i].LastAt), tx.Now)
			rows[i].LastAt = database.Micros(tx.Now)
			if err := tx.Save(&rows[i]).Error; err != nil {
				return err
			}
		}
		return nil
	})
	return wait, err
}

// inOrder sorts subjects in locking order, to prevent deadlocks.
func inOrder(subjects []AttemptSubject) []AttemptSubject {
	return slices.SortedFunc(slices.Values(subjects),
		func(a, b AttemptSubject) int { return strings.Compare(a.Name, b.Name) })
}

func forgive(tx *accountdb.Tx, subjects []AttemptSubject) error {
	for _, subject := range inOrder(subjects) {
		row := tx.Where("subject = ?", attemptName(tx, subject))
		var err error
		if subject.Shared {
			err = row.Model(&attemptRow{}).Where("failures > 0").Update("failures", gorm.Expr("failures - 1")).Error
		} else {
			err = row.Delete(&attemptRow{}).Error
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attemptName returns the keyed hash of a subject, so that the database does not contain addresses.
func attemptName(tx *accountdb.Tx, subject AttemptSubject) string {
	return tx.Box.Fingerprint(subject.Name, "attempt")
}
