package linkcheck

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

const (
	day = 24 * time.Hour
	// minInterval is the minimum time between two checks of a link. Without it, a link that was
	// checked late, or a new listing shortly before its due time, would be checked twice in quick
	// succession.
	minInterval = 12 * time.Hour
)

// lastDue returns the latest due time of the link of a listing, or of a page, that is not after
// now. It is due once in a UTC day, at a fixed time of day; the times of all are spread evenly over
// the day.
func lastDue(key string, now time.Time) time.Time {
	sum := sha256.Sum256([]byte("opportunity link check\x00" + key))
	seconds := binary.BigEndian.Uint64(sum[:8]) % uint64(day/time.Second)
	offset := time.Duration(seconds) * time.Second //nolint:gosec // below a day
	// a UTC day has 24 hours in Go
	at := now.UTC().Truncate(day).Add(offset)
	if at.After(now) {
		at = at.Add(-day)
	}
	return at
}

// isDue reports whether a check is due at a time, after the last one, which was due and started at
// the given times in microseconds.
func isDue(due time.Time, lastDue, started int64, now time.Time) bool {
	return due.UnixMicro() > lastDue && now.Sub(time.UnixMicro(started)) >= minInterval
}
