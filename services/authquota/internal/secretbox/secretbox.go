// Package secretbox seals what the database must not show: seeds of authenticators, texts of mails, names of what is throttled.
//
// A sealed text names the key that it is under, so that keys can be exchanged: what is not Current opens all the same for as long
// as its key is in the list, and its keeper seals it anew.
package secretbox

import (
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
)

// MaxKeys is how many keys may be in force at a time.
const MaxKeys = 8

const keyBytes = 32

// form says how the text was sealed. Another form gets another mark.
const form = "v1"

// ErrSealed is the refusal of a text that does not open. It does not say why: a wrong context, a lost key and a forgery are alike.
var ErrSealed = errors.New("a sealed text does not open: its encryption key is not in the list, or it was sealed for something else, or changed")

// Box seals and opens. The zero Box opens nothing and must not seal.
type Box struct {
	keys []key // newest first
}

type key struct {
	id   string
	seal cipher.AEAD
	mac  []byte
}

// Parse makes a Box of keys in hexadecimal, 32 bytes each, the newest first. An error tells which is wrong, and never its value.
func Parse(encoded []string) (Box, error) {
	if len(encoded) == 0 || len(encoded) > MaxKeys {
		return Box{}, fmt.Errorf("1 to %d encryption keys are needed", MaxKeys)
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
				return Box{}, fmt.Errorf("encryption key %d is in the list already", i+1)
			}
		}
	}
	return box, nil
}

// newKey draws one key for each purpose from the secret, so that none is used for two.
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

// Seal makes a text of plain that only opens with the same context: what it is and whose, such as "totp seed acc_123". So a text
// that somebody with access to the database copies to another row is of no use there. Equal secrets look different each time.
func (b Box) Seal(plain []byte, context string) string {
	newest := b.keys[0]
	header := form + "." + newest.id
	sealed := newest.seal.Seal(nil, nil, plain, additional(header, context)) //nolint:gosec // it draws the nonce itself
	return header + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns what was sealed with this context, or ErrSealed.
func (b Box) Open(sealed, context string) ([]byte, error) {
	header, body, id := split(sealed)
	for _, k := range b.keys {
		if k.id != id {
			continue
		}
		// Strict, and no line ends, which the decoder skips: no two texts are the same sealed thing.
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

// Current reports whether the text is under the newest key. One that is not should be sealed anew.
func (b Box) Current(sealed string) bool {
	_, _, id := split(sealed)
	return len(b.keys) > 0 && id == b.keys[0].id
}

// Prefix is how every text begins that is Current: what a query for the others compares with.
func (b Box) Prefix() string { return form + "." + b.keys[0].id + "." }

// Fingerprint is the same text for the same data and context for as long as the newest key stays, and says nothing about the data
// to whoever has not the key.
func (b Box) Fingerprint(data, context string) string {
	mac := hmac.New(sha256.New, b.keys[0].mac)
	mac.Write(additional(context, data))
	return hex.EncodeToString(mac.Sum(nil))
}

// additional joins two parts so that no other two make the same.
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
