package listing

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Position is a position in the change sequence: behind Sequence, whose transaction has the ID. The
// zero value is before all changes. A database that was restored from an older backup lacks the id,
// even after it has used the sequence again.
type Position struct {
	Sequence int64
	ID       string
}

var encoding = base64.RawURLEncoding.Strict()

// Cursor returns the position as consumers see it. They must not rely on its form.
func (p Position) Cursor() string {
	return encoding.EncodeToString([]byte(strconv.FormatInt(p.Sequence, 10) + "." + p.ID))
}

// ParseCursor returns the position of a cursor, and false for any other text.
func ParseCursor(text string) (Position, bool) {
	decoded, err := encoding.DecodeString(text)
	sequence, id, _ := strings.Cut(string(decoded), ".")
	p := Position{ID: id}
	if err == nil {
		p.Sequence, err = strconv.ParseInt(sequence, 10, 64)
	}
	return p, err == nil && p.Cursor() == text && p.Sequence >= 0 && (p.Sequence == 0) == (id == "")
}
