package linkcheck

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Link is the application link of a published listing, and what is known of its last check.
type Link struct {
	Slug      string
	Address   string
	DueAt     time.Time // the instant that the last check was due at; zero before any
	ClaimedAt time.Time // when that check began
	Recorded  bool      // whether it came to an event
}

const (
	day = 24 * time.Hour
	// apart is how long after a check the next one may come. Without it a listing that is new just before its instant of the
	// day, or was late because no run came, would be asked twice in short order.
	apart = 12 * time.Hour
)

// DueAt is the latest instant, not after now, at which the link of slug falls due: once a UTC day, at a time of day that is the
// same every day and spread evenly over all listings.
func DueAt(slug string, now time.Time) time.Time {
	sum := sha256.Sum256([]byte("opportunity link check\x00" + slug))
	offset := time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(day/time.Second) * uint64(time.Second)) //nolint:gosec // below a day
	at := now.UTC().Truncate(day).Add(offset)                                                                 // days of UTC have 24 hours for Go
	if at.After(now) {
		at = at.Add(-day)
	}
	return at
}

// due reports whether l is to be asked now, and for which instant.
func (l Link) due(now time.Time) (time.Time, bool) {
	at := DueAt(l.Slug, now)
	return at, at.After(l.DueAt) && now.Sub(l.ClaimedAt) >= apart
}
