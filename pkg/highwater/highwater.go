// Package highwater notices that a database was set back: restored from a backup, or replaced by a replica that lagged.
//
// The owner of a database numbers its changes and gives each a random id. Its high-water mark is the newest change, and of history also the
// newest signed checkpoint, authenticated under a key of the owner. Keepers keep the newest mark that they have seen outside the database.
// They present it to the owner, which verifies that the database has it, and replace it by the mark in the response. A mark is opaque to
// them: only the owner can make and read it. See docs/decisions/0027-high-water-marks.md.
package highwater

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Mark is the newest state of a store.
type Mark struct {
	api.Change

	Checkpoint string // signed text of the newest checkpoint of the history; empty for none
}

// MaxSequence is the greatest sequence of a change and the greatest number of a checkpoint. It leaves room for all that follow.
const MaxSequence = 1 << 60

// Key authenticates the marks of one store.
type Key struct{ macs [][]byte }

// NewKey derives the key of a store from secrets of its owner that survive a restore of the database. The first one makes marks, and all of
// them verify, so that secrets can be replaced. Without secrets, no mark is valid.
func NewKey(store string, secrets ...string) (Key, error) {
	var k Key
	for _, secret := range secrets {
		mac, err := hkdf.Key(sha256.New, []byte(secret), nil, "opportunity high-water mark of "+store, sha256.Size)
		if err != nil {
			return Key{}, err
		}
		k.macs = append(k.macs, mac)
	}
	if len(k.macs) == 0 {
		return Key{}, errors.New("no secret to authenticate high-water marks with")
	}
	return k, nil
}

// ErrForged is the error of Decode for a text that no configured key authenticates.
var ErrForged = errors.New("not a high-water mark under a current key of this store")

var encoding = base64.RawURLEncoding.Strict()

// Encode returns the text of a mark, or "" for the zero mark.
func (k Key) Encode(m Mark) string {
	if m.Sequence == 0 {
		return ""
	}
	body := fmt.Sprintf("%d.%s.%s", m.Sequence, m.ID, encoding.EncodeToString([]byte(m.Checkpoint)))
	return body + "." + encoding.EncodeToString(authenticate(k.macs[0], body))
}

// Decode returns the mark that Encode has encoded. It returns ErrForged for any other text.
func (k Key) Decode(text string) (m Mark, err error) {
	dot := strings.LastIndexByte(text, '.')
	if dot < 0 {
		return m, ErrForged
	}
	body := text[:dot]
	for _, mac := range k.macs {
		if hmac.Equal([]byte(text[dot+1:]), []byte(encoding.EncodeToString(authenticate(mac, body)))) {
			return parse(body)
		}
	}
	return m, ErrForged
}

func authenticate(key []byte, body string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(body))
	return h.Sum(nil)
}

func parse(body string) (m Mark, err error) {
	parts := strings.Split(body, ".")
	if len(parts) != 3 {
		return m, ErrForged
	}
	sequence, err1 := strconv.ParseInt(parts[0], 10, 64)
	checkpoint, err2 := encoding.DecodeString(parts[2])
	if err1 != nil || err2 != nil || sequence < 1 || sequence > MaxSequence {
		return m, ErrForged
	}
	return Mark{api.Change{Sequence: sequence, ID: parts[1]}, string(checkpoint)}, nil
}
