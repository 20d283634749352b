package opportunity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ProofKeys are the keys that a reader trusts, each as name+id+base64 (C2SP signed-note).
type ProofKeys struct {
	Log       []string // of the log: one of them must have signed the checkpoint
	Witnesses []string // Ed25519 keys of witnesses
	Quorum    int      // witnesses that must have cosigned; 0: all
}

// Proof is a verified proof: the log has the event, unchanged since the earliest time of a witness.
type Proof struct {
	// as it was recorded: members that the API has gained since are empty
	Event      VerificationEvent `json:"event"`
	Origin     string            `json:"origin"`     // name of the log
	Size       int64             `json:"size"`       // events that the checkpoint covers
	Index      int64             `json:"index"`      // of the event
	RecordedAt time.Time         `json:"recordedAt"` // when the log says that it recorded the event
	Root       []byte            `json:"root"`       // hash of the tree of the checkpoint
	Witnesses  []Seen            `json:"witnesses"`  // that have cosigned, in the order of the keys
}

// Seen is the time at which a witness has seen the checkpoint.
type Seen struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// Reasons of a ProofError.
const (
	// a key is not a verifier key of its kind, or the quorum is out of range
	ReasonMalformedKey     = "malformed_key"
	ReasonMalformedProof   = "malformed_proof"   // not a proof or checkpoint in its one form
	ReasonUnknownLog       = "unknown_log"       // no signature of a given key of the log
	ReasonInvalidSignature = "invalid_signature" // a signature of a given key that does not verify
	ReasonNotWitnessed     = "not_witnessed"     // fewer cosignatures than the quorum
	ReasonNotIncluded      = "not_included"      // the event is not the one that the checkpoint covers at this index
	ReasonMalformedEvent   = "malformed_event"   // the log has recorded something that is not an event
)

// ProofError is the error of an event that is not proved.
type ProofError struct {
	Reason  string
	Message string
}

func (e *ProofError) Error() string { return "not proved: " + e.Message }

func unproved(reason, message string, args ...any) error {
	return &ProofError{reason, fmt.Sprintf(message, args...)}
}

// EventProof returns an event with its proof as text, for VerifyEvent. It is public: the request
// has no key and is not charged. An event of a record that is not public is an Error with
// CodeNotFound. So is an event that was recorded within seconds: no checkpoint covers it yet.
func (c *Client) EventProof(ctx context.Context, id string) (string, error) {
	path := &url.URL{Path: proofPath + id, RawPath: proofPath + url.PathEscape(id)}
	var proof string
	_, err := c.get(ctx, request{path: path, proof: true, fresh: true}, &proof)
	return proof, err
}

const (
	proofPath    = "/.well-known/opportunity-history/log/proof/"
	proofVersion = "c2sp.org/tlog-proof@v1"
)

// maxProof bounds a proof, in bytes. It has room for 16 signatures of any kind.
const maxProof = 128 << 10

// VerifyEvent verifies the proof of an event (C2SP tlog-proof), without a network, and returns the
// event that the proof has. It returns a ProofError unless the event is proved.
func VerifyEvent(proof string, keys ProofKeys) (Proof, error) {
	log, witnesses, err := keys.parse()
	if err != nil {
		return Proof{}, err
	}
	p, err := parseProof(proof)
	if err != nil {
		return Proof{}, err
	}
	seen, err := p.verify(log, witnesses)
	if err != nil {
		return Proof{}, err
	}
	quorum := keys.Quorum
	if quorum == 0 {
		quorum = len(witnesses)
	}
	if len(seen) < quorum {
		return Proof{}, unproved(ReasonNotWitnessed,
			"%d of the %d given witnesses have cosigned the checkpoint, want %d", len(seen), len(witnesses), quorum)
	}
	leaf := sha256.Sum256(append([]byte{0}, p.leaf...))
	if !included(leaf[:], p.index, p.size, p.path, p.root) {
		return Proof{}, unproved(ReasonNotIncluded,
			"the event differs from the one that was recorded, or the proof is of another event")
	}
	event, recordedAt, err := parseLeaf(p.leaf)
	return Proof{Event: event, Origin: p.origin, Size: p.size, Index: p.index, RecordedAt: recordedAt, Root: p.root,
		Witnesses: seen}, err
}

// VerifyCheckpoint verifies a checkpoint of the log that a reader got elsewhere, as a signed note.
// The proof of an event must have the same size and root. Witnesses are not needed.
func VerifyCheckpoint(checkpoint string, keys ProofKeys) (size int64, root []byte, err error) {
	log, _, err := keys.parse()
	if err != nil {
		return 0, nil, err
	}
	lines, err := linesOf(checkpoint)
	if err != nil {
		return 0, nil, err
	}
	c, err := parseCheckpoint(lines, 0)
	if err != nil {
		return 0, nil, err
	}
	_, err = c.verify(log, nil)
	return c.size, c.root, err
}

type verifierKey struct {
	name string
	id   []byte
	key  ed25519.PublicKey
}

// parse parses the keys. A witness whose key is given twice would count twice, so that is an error.
func (k ProofKeys) parse() (log, witnesses []verifierKey, err error) {
	if log, err = parseKeys(k.Log, 1); err != nil {
		return nil, nil, err
	}
	if witnesses, err = parseKeys(k.Witnesses, 4); err != nil {
		return nil, nil, err
	}
	for i, w := range witnesses {
		if slices.ContainsFunc(witnesses[:i], func(other verifierKey) bool { return other.key.Equal(w.key) }) {
			return nil, nil, unproved(ReasonMalformedKey, "the key of the witness %s is given twice", w.name)
		}
	}
	if k.Quorum < 0 || k.Quorum > len(witnesses) {
		return nil, nil, unproved(ReasonMalformedKey, "the quorum is %d and %d witnesses are given", k.Quorum,
			len(witnesses))
	}
	return log, witnesses, nil
}

// parseKeys parses verifier keys of a kind: 1 for notes, 4 for cosignatures.
func parseKeys(all []string, kind byte) (keys []verifierKey, err error) {
	for _, text := range all {
		name, rest, _ := strings.Cut(text, "+")
		id, encoded, _ := strings.Cut(rest, "+")
		data, ok := decode(encoded)
		if !ok || name == "" || len(data) != 1+ed25519.PublicKeySize || data[0] != kind {
			return nil, unproved(ReasonMalformedKey,
				"%q is not an Ed25519 key of type %d, such as name+0badc0de+base64", text, kind)
		}
		sum := sha256.Sum256(append([]byte(name+"\n"), data...))
		if id != fmt.Sprintf("%x", sum[:4]) {
			return nil, unproved(ReasonMalformedKey, "the id of the key %q is not that of its name and key", text)
		}
		keys = append(keys, verifierKey{name, sum[:4], data[1:]})
	}
	return keys, nil
}

// decode decodes base64 in its one form. The decoder of Go skips line breaks.
func decode(text string) ([]byte, bool) {
	data, err := base64.StdEncoding.DecodeString(text)
	return data, err == nil && base64.StdEncoding.EncodeToString(data) == text
}

type parsedCheckpoint struct {
	origin     string
	size       int64
	root       []byte
	text       string // that is signed
	signatures []parsedSignature
}

type parsedSignature struct {
	name string
	data []byte // key id and signature
}

type parsedProof struct {
	parsedCheckpoint

	index int64
	path  [][]byte
	leaf  []byte // JSON of the event and of what the log recorded with it
}

// malformed returns the error of a line, which counts from 0.
func malformed(line int, want string) error {
	return unproved(ReasonMalformedProof, "malformed proof: line %d: want %s", line+1, want)
}

// linesOf returns the lines of a text. Each ends with a line feed, the last one too.
func linesOf(text string) ([]string, error) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			return nil, malformed(i, "text in UTF-8 without control characters")
		}
	}
	if len(text) > maxProof {
		return nil, unproved(ReasonMalformedProof, "malformed proof: it has %d bytes, want at most %d", len(text),
			maxProof)
	}
	if lines[len(lines)-1] != "" {
		return nil, malformed(len(lines)-1, "a line feed at the end")
	}
	return lines[:len(lines)-1], nil
}

// parseProof parses a proof strictly: each has one form.
func parseProof(text string) (p parsedProof, err error) {
	lines, err := linesOf(text)
	if err != nil {
		return p, err
	}
	if at(lines, 0) != proofVersion {
		return p, malformed(0, proofVersion)
	}
	encoded, ok := strings.CutPrefix(at(lines, 1), "extra ")
	leaf, valid := decode(encoded)
	if !ok || !valid {
		return p, malformed(1, `"extra " and the event in base64`)
	}
	p.leaf = leaf
	index, ok := strings.CutPrefix(at(lines, 2), "index ")
	if p.index, err = parseSize(index); !ok || err != nil {
		return p, malformed(2, `"index " and a decimal number`)
	}
	next := 3
	for ; at(lines, next) != ""; next++ {
		hash, ok := parseHash(lines[next])
		if !ok || len(p.path) == 63 {
			return p, malformed(next, "at most 63 hashes, each base64 of 32 bytes, and an empty line")
		}
		p.path = append(p.path, hash)
	}
	p.parsedCheckpoint, err = parseCheckpoint(lines, next+1)
	return p, err
}

// at returns a line, or an empty one after the last.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

var timestamp = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$`)

// parseLeaf returns the event of a leaf, and the time at which the log says that it recorded the
// event.
func parseLeaf(leaf []byte) (e VerificationEvent, recordedAt time.Time, err error) {
	var members map[string]json.RawMessage // not a struct, whose members Go finds in any case
	var recorded string
	err = errors.Join(json.Unmarshal(leaf, &members), json.Unmarshal(members["recordedAt"], &recorded),
		json.Unmarshal(members["event"], &e))
	at, invalid := time.Parse(time.RFC3339Nano, recorded)
	if err != nil || invalid != nil || !utf8.Valid(leaf) || !timestamp.MatchString(recorded) ||
		!bytes.HasPrefix(members["event"], []byte("{")) {
		return VerificationEvent{}, time.Time{}, unproved(ReasonMalformedEvent,
			"the log has recorded something that is not an event")
	}
	return e, at, nil
}

// parseCheckpoint parses the checkpoint that begins at a line.
func parseCheckpoint(lines []string, first int) (c parsedCheckpoint, err error) {
	if c.origin = at(lines, first); c.origin == "" {
		return c, malformed(first, "the name of the log, which begins a checkpoint")
	}
	if c.size, err = parseSize(at(lines, first+1)); err != nil {
		return c, malformed(first+1, "the size of the checkpoint, a decimal number")
	}
	var ok bool
	if c.root, ok = parseHash(at(lines, first+2)); !ok {
		return c, malformed(first+2, "the root hash of the checkpoint, base64 of 32 bytes")
	}
	if first+3 >= len(lines) || lines[first+3] != "" {
		return c, malformed(first+3, "an empty line after the three of the checkpoint")
	}
	c.text = strings.Join(lines[first:first+3], "\n") + "\n"
	for i := first + 4; i < max(len(lines), first+5); i++ {
		dash, rest, _ := strings.Cut(at(lines, i), " ")
		name, encoded, _ := strings.Cut(rest, " ")
		data, ok := decode(encoded)
		if dash != "—" || name == "" || !ok || len(data) < 5 {
			return c, malformed(i, "a signature: an em dash, a name and base64, separated by spaces")
		}
		c.signatures = append(c.signatures, parsedSignature{name, data})
	}
	return c, nil
}

// parseSize parses a decimal number without leading zeros, below 2^53.
func parseSize(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < 0 || n >= 1<<53 {
		return 0, errors.New("not a size")
	}
	return n, nil
}

func parseHash(text string) ([]byte, bool) {
	hash, ok := decode(text)
	return hash, ok && len(hash) == sha256.Size
}

// verify returns the witnesses that have cosigned. It returns an error unless a key of the log has
// signed. Signatures of other keys are ignored.
func (c parsedCheckpoint) verify(log, witnesses []verifierKey) ([]Seen, error) {
	signed, seen := false, []Seen{}
	for _, key := range log {
		for _, signature := range c.by(key) {
			if key.name != c.origin {
				continue
			}
			if !ed25519.Verify(key.key, []byte(c.text), signature) {
				return nil, unproved(ReasonInvalidSignature, "the signature of %s is not valid", key.name)
			}
			signed = true
		}
	}
	if !signed {
		return nil, unproved(ReasonUnknownLog, "none of the given keys of the log has signed the checkpoint of %s",
			c.origin)
	}
	for _, key := range witnesses {
		for i, signature := range c.by(key) {
			time, ok := cosigned(key, signature, c.text)
			if !ok {
				return nil, unproved(ReasonInvalidSignature, "the cosignature of %s is not valid", key.name)
			}
			if i == 0 {
				seen = append(seen, Seen{key.name, time})
			}
		}
	}
	return seen, nil
}

// by returns the signatures with the name and the id of a key.
func (c parsedCheckpoint) by(key verifierKey) (signatures [][]byte) {
	for _, s := range c.signatures {
		if s.name == key.name && bytes.HasPrefix(s.data, key.id) {
			signatures = append(signatures, s.data[4:])
		}
	}
	return signatures
}

// endOfTime is the first second that a date with four digits cannot express.
const endOfTime = 253402300800

// cosigned returns the time of a cosignature, and whether it is valid.
func cosigned(key verifierKey, signature []byte, text string) (time.Time, bool) {
	if len(signature) != 8+ed25519.SignatureSize {
		return time.Time{}, false
	}
	seconds := binary.BigEndian.Uint64(signature)
	message := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text)
	at := time.Unix(int64(seconds%endOfTime), 0).UTC() //nolint:gosec // fits
	return at, seconds < endOfTime && ed25519.Verify(key.key, message, signature[8:])
}

// included verifies an inclusion proof (RFC 9162, section 2.1.3.2).
func included(leaf []byte, index, size int64, path [][]byte, root []byte) bool {
	if index >= size {
		return false
	}
	hash, at, last := leaf, index, size-1
	for _, sibling := range path {
		if last == 0 {
			return false
		}
		if at&1 == 1 || at == last {
			hash = node(sibling, hash)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			hash = node(hash, sibling)
		}
		at, last = at>>1, last>>1
	}
	return last == 0 && bytes.Equal(hash, root)
}

func node(left, right []byte) []byte {
	sum := sha256.Sum256(slices.Concat([]byte{1}, left, right))
	return sum[:]
}
