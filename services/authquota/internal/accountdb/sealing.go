package accountdb

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// Sealed is a column of sealed texts. Context binds a text to its row.
type Sealed struct {
	Table, ID, Column string
	Context           func(id string) string
}

const resealBatch = 1000

// Reseal seals everything in the columns under the newest encryption key that is under an older
// one, so that the older key can be removed. It skips concurrently changed values, and texts that
// do
// not open because their key is missing.
func (db *DB) Reseal(ctx context.Context, columns ...Sealed) error {
	for _, column := range columns {
		if err := db.reseal(ctx, column); err != nil {
			return database.Outage(err)
		}
	}
	return nil
}

func (db *DB) reseal(ctx context.Context, at Sealed) error {
	for after := ""; ; {
		var rows []struct{ ID, Text string }
		err := db.WithContext(ctx).Table(at.Table).Select(at.ID+" AS id, "+at.Column+" AS text").
			Where(at.ID+" > ? AND "+at.Column+" <> '' AND substr("+at.Column+", 1, ?) <> ?", after, len(db.Box.Prefix()),
				db.Box.Prefix()).
			Order(at.ID).Limit(resealBatch).Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			after = r.ID
			plain, err := db.Box.Open(r.Text, at.Context(r.ID))
			if err != nil {
				continue
			}
			err = db.WithContext(ctx).Session(&gorm.Session{NewDB: true}).Table(at.Table).
				Where(at.ID+" = ? AND "+at.Column+" = ?", r.ID, r.Text).
				Update(at.Column, db.Box.Seal(plain, at.Context(r.ID))).Error
			if err != nil {
				return err
			}
		}
	}
}

// MaxBoxKeys is the maximum number of keys.
const MaxBoxKeys = 8

const keyBytes = 32

const form = "v1"

// ErrSealed is returned for a text that does not open. It does not give the reason: a wrong
// context, a missing key and a forgery look alike.
var ErrSealed = errors.New("sealed text does not open: encryption key missing, wrong context, or text changed")

// Box seals and opens. The zero Box opens nothing and must not seal.
type Box struct {
	keys []key // newest first
}

type key struct {
	id   string
	seal cipher.AEAD
	mac  []byte
}

// ParseBox returns a Box of hexadecimal keys, 32 bytes each, newest first. Errors give the position
// of the invalid key, never its value.
func ParseBox(encoded []string) (Box, error) {
	if len(encoded) == 0 || len(encoded) > MaxBoxKeys {
		return Box{}, fmt.Errorf("want 1 to %d encryption keys", MaxBoxKeys)
	}
	box := Box{keys: make([]key, len(encoded))}
	for i, e := range encoded {
		secret, err := hex.DecodeString(e)
		if err != nil || len(secret) != keyBytes {
			return Box{}, fmt.Errorf("encryption key %d must be %d bytes in hexadecimal", i+1, keyBytes)
		}
		if box.keys[i], err = newKey(secret); err != nil {
			return Box{}, err
		}
		for _, other := range box.keys[:i] {
			if other.id == box.keys[i].id {
				return Box{}, fmt.Errorf("encryption key %d is a duplicate", i+1)
			}
		}
	}
	return box, nil
}

func newKey(secret []byte) (key, error) {
	var drawn [3][]byte
	for i, purpose := range []string{"id", "seal", "fingerprint"} {
		d, err := hkdf.Key(sha256.New, secret, nil, "opportunity secretbox "+form+" "+purpose, keyBytes)
		if err != nil {
			return key{}, err
		}
		drawn[i] = d
	}
	block, err := aes.NewCipher(drawn[1])
	if err != nil {
		return key{}, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return key{id: hex.EncodeToString(drawn[0][:6]), seal: seal, mac: drawn[2]}, err
}

// Seal encrypts plain so that it opens only with the same context, which says what it is and whose,
// such as "totp seed acc_123". A text copied to another row does not open there. Sealing the same
// value twice gives different texts.
func (b Box) Seal(plain []byte, context string) string {
	newest := b.keys[0]
	header := form + "." + newest.id
	sealed := newest.seal.Seal(nil, nil, plain, additional(header, context)) //nolint:gosec // it generates the nonce
	return header + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns the value sealed with this context, or ErrSealed.
func (b Box) Open(sealed, context string) ([]byte, error) {
	header, body, id := split(sealed)
	for _, k := range b.keys {
		if k.id != id {
			continue
		}
		// Strict and without line ends, which the decoder would skip: each value has one encoding.
		raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
		if err != nil || strings.ContainsAny(body, "\r\n") {
			return nil, ErrSealed
		}
		plain, err := k.seal.Open(nil, nil, raw, additional(header, context))
		if err != nil {
			return nil, ErrSealed
		}
		return plain, nil
	}
	return nil, ErrSealed
}

// Prefix returns the prefix of every text under the newest key, for use in queries.
func (b Box) Prefix() string { return b.Prefixes()[0] }

// Prefixes returns the prefixes of all texts that can be opened, newest key first. They have the
// same length.
func (b Box) Prefixes() []string {
	all := make([]string, len(b.keys))
	for i, k := range b.keys {
		all[i] = form + "." + k.id + "."
	}
	return all
}

// Fingerprint returns a keyed hash of data and context. It is stable while the newest key stays the
// same, and reveals nothing about data without that key.
func (b Box) Fingerprint(data, context string) string {
	mac := hmac.New(sha256.New, b.keys[0].mac)
	mac.Write(additional(context, data))
	return hex.EncodeToString(mac.Sum(nil))
}

// additional joins two parts unambiguously.
func additional(first, second string) []byte {
	return fmt.Appendf(nil, "%d:%s%s", len(first), first, second)
}

func split(sealed string) (header, body, id string) {
	parts := strings.Split(sealed, ".")
	if len(parts) != 3 || parts[0] != form {
		return "", "", ""
	}
	return parts[0] + "." + parts[1], parts[2], parts[1]
}
