package linkcheck

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Link is the application link of a published listing with the state of its last check.
type Link struct {
	Slug      string
	Address   string
	DueAt     time.Time // due time of the last check; zero before the first
	ClaimedAt time.Time // start of the last check
	Recorded  bool      // whether the last check recorded an event
}

const (
	day = 24 * time.Hour
	// minInterval is the minimum time between two checks of a link. Without it, a link that was
	// checked late, or a new listing shortly before its due time, would be checked twice in quick
	// succession.
	minInterval = 12 * time.Hour
)

// DueAt returns the latest due time of the link of slug that is not after now. A link is due once
// in a UTC day, at a fixed time of day; the times of all listings are spread evenly over the day.
func DueAt(slug string, now time.Time) time.Time {
	sum := sha256.Sum256([]byte("opportunity link check\x00" + slug))
	seconds := binary.BigEndian.Uint64(sum[:8]) % uint64(day/time.Second)
	offset := time.Duration(seconds) * time.Second //nolint:gosec // below a day
	// a UTC day has 24 hours in Go
	at := now.UTC().Truncate(day).Add(offset)
	if at.After(now) {
		at = at.Add(-day)
	}
	return at
}

func (l Link) due(now time.Time) (time.Time, bool) {
	at := DueAt(l.Slug, now)
	return at, at.After(l.DueAt) && now.Sub(l.ClaimedAt) >= minInterval
}
