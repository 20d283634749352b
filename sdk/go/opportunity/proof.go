package opportunity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// ProofKeys are the keys that a reader trusts, each as name+id+base64 (C2SP signed-note).
type ProofKeys struct {
	Log       []string // of the log: one of them must have signed the checkpoint
	Witnesses []string // Ed25519 keys of witnesses
	Quorum    int      // witnesses that must have cosigned; 0: all
}

// Proof is a verified proof: the log has the event, unchanged since the earliest time of a witness.
type Proof struct {
	Origin     string    `json:"origin"`     // name of the log
	Size       int64     `json:"size"`       // events that the checkpoint covers
	Index      int64     `json:"index"`      // of the event
	RecordedAt time.Time `json:"recordedAt"` // when the log says that it recorded the event
	Root       []byte    `json:"root"`       // hash of the tree of the checkpoint
	Witnesses  []Seen    `json:"witnesses"`  // that have cosigned, in the order of the keys
}

// Seen is the time at which a witness has seen the checkpoint.
type Seen struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// ProofError is the error of an event that is not proved.
type ProofError struct {
	Reason  string // malformed_key, malformed_proof, unknown_log, invalid_signature, not_witnessed, hidden_value or different_event
	Message string
}

func (e *ProofError) Error() string { return "not proved: " + e.Message }

func unproved(reason, message string, args ...any) error {
	return &ProofError{reason, fmt.Sprintf(message, args...)}
}

// maxProof bounds a proof, in bytes.
const maxProof = 64 << 10

// VerifyEvent verifies the proof of an event (C2SP tlog-proof), without a network. event is an Event or its JSON; use the JSON as the API sent
// it, as a json.RawMessage, if the API may be newer than this package. It returns a ProofError unless the event is proved.
func VerifyEvent(event any, proof string, keys ProofKeys) (Proof, error) {
	log, err := parseKeys(keys.Log, 1)
	if err != nil {
		return Proof{}, err
	}
	witnesses, err := parseKeys(keys.Witnesses, 4)
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
		return Proof{}, unproved("not_witnessed", "%d of the given witnesses have cosigned the checkpoint, want %d", len(seen), quorum)
	}
	leaf, err := p.leaf(event)
	if err != nil {
		return Proof{}, err
	}
	if !included(leaf, p.index, p.size, p.path, p.root) {
		return Proof{}, unproved("different_event", "the event differs from the one that was recorded, or the proof is of another event")
	}
	recorded, err := time.Parse(time.RFC3339Nano, p.extra.RecordedAt)
	if err != nil {
		return Proof{}, unproved("malformed_proof", "the time of recording is not a time")
	}
	return Proof{Origin: p.origin, Size: p.size, Index: p.index, RecordedAt: recorded, Root: p.root, Witnesses: seen}, nil
}

// VerifyCheckpoint verifies a checkpoint of the log that a reader got elsewhere, as a signed note. The proof of an event must have the same size
// and root.
func VerifyCheckpoint(checkpoint string, keys ProofKeys) (size int64, root []byte, err error) {
	log, err := parseKeys(keys.Log, 1)
	if err != nil {
		return 0, nil, err
	}
	c, err := parseCheckpoint(checkpoint)
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

// parseKeys parses verifier keys of a kind: 1 for notes, 4 for cosignatures.
func parseKeys(all []string, kind byte) (keys []verifierKey, err error) {
	for _, text := range all {
		name, rest, _ := strings.Cut(text, "+")
		id, encoded, _ := strings.Cut(rest, "+")
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || name == "" || len(data) != 1+ed25519.PublicKeySize || data[0] != kind {
			return nil, unproved("malformed_key", "%q is not an Ed25519 key of type %d, such as name+0badc0de+base64", text, kind)
		}
		sum := sha256.Sum256(append([]byte(name+"\n"), data...))
		if id != fmt.Sprintf("%x", sum[:4]) {
			return nil, unproved("malformed_key", "the id of the key %q is not that of its name and key", text)
		}
		keys = append(keys, verifierKey{name, sum[:4], data[1:]})
	}
	return keys, nil
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
	extra struct {
		Private    string
		RecordedAt string
		Added      []string
	}
}

func malformed(what string) error { return unproved("malformed_proof", "malformed proof: %s", what) }

// parseProof parses a proof strictly: each has one form.
func parseProof(text string) (p parsedProof, err error) {
	head, rest, found := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if len(text) > maxProof || !found || len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return p, malformed("want the line c2sp.org/tlog-proof@v1, an extra line, an index line, hashes, an empty line and a checkpoint")
	}
	encoded, ok := strings.CutPrefix(lines[1], "extra ")
	extra, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || json.Unmarshal(extra, &p.extra) != nil {
		return p, malformed("the second line must be extra and base64 of JSON")
	}
	index, ok := strings.CutPrefix(lines[2], "index ")
	if p.index, err = parseSize(index); !ok || err != nil {
		return p, malformed("the third line must be index and a decimal number")
	}
	if len(lines) > 3+63 {
		return p, malformed("more than 63 hashes")
	}
	for _, line := range lines[3:] {
		hash, err := parseHash(line)
		if err != nil {
			return p, err
		}
		p.path = append(p.path, hash)
	}
	p.parsedCheckpoint, err = parseCheckpoint(rest)
	return p, err
}

func parseCheckpoint(note string) (c parsedCheckpoint, err error) {
	body, signatures, found := strings.Cut(note, "\n\n")
	lines := strings.Split(body, "\n")
	if len(note) > maxProof || !found || len(lines) != 3 || lines[0] == "" || !strings.HasSuffix(signatures, "\n") {
		return c, malformed("the checkpoint must have three lines, an empty line and signatures")
	}
	c.origin, c.text = lines[0], body+"\n"
	if c.size, err = parseSize(lines[1]); err != nil {
		return c, malformed("the size of the checkpoint must be a decimal number")
	}
	if c.root, err = parseHash(lines[2]); err != nil {
		return c, err
	}
	for _, line := range strings.Split(strings.TrimSuffix(signatures, "\n"), "\n") {
		name, encoded, _ := strings.Cut(strings.TrimPrefix(line, "— "), " ")
		data, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !strings.HasPrefix(line, "— ") || name == "" || err != nil || len(data) < 5 {
			return c, malformed("a signature must be an em dash, a name and base64, separated by spaces")
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

func parseHash(text string) ([]byte, error) {
	hash, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(hash) != sha256.Size {
		return nil, malformed("a hash must be base64 of 32 bytes")
	}
	return hash, nil
}

// verify returns the witnesses that have cosigned. It returns an error unless a key of the log has signed. Signatures of other keys are ignored.
func (c parsedCheckpoint) verify(log, witnesses []verifierKey) ([]Seen, error) {
	signed, seen := false, []Seen{}
	for _, key := range log {
		for _, s := range c.signatures {
			if key.name == c.origin && s.name == key.name && bytes.HasPrefix(s.data, key.id) {
				if !ed25519.Verify(key.key, []byte(c.text), s.data[4:]) {
					return nil, unproved("invalid_signature", "the signature of %s is not valid", key.name)
				}
				signed = true
			}
		}
	}
	if !signed {
		return nil, unproved("unknown_log", "none of the given keys of the log has signed the checkpoint of %s", c.origin)
	}
	for _, key := range witnesses {
		at := slices.IndexFunc(c.signatures, func(s parsedSignature) bool { return s.name == key.name && bytes.HasPrefix(s.data, key.id) })
		if at < 0 {
			continue
		}
		data := c.signatures[at].data[4:]
		if len(data) != 8+ed25519.SignatureSize || data[0] > 127 {
			return nil, unproved("invalid_signature", "the cosignature of %s is not valid", key.name)
		}
		seconds := binary.BigEndian.Uint64(data)
		if !ed25519.Verify(key.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, c.text), data[8:]) {
			return nil, unproved("invalid_signature", "the cosignature of %s is not valid", key.name)
		}
		seen = append(seen, Seen{key.name, time.Unix(int64(seconds), 0).UTC()}) //nolint:gosec // 63 bits, as checked above
	}
	return seen, nil
}

// leaf returns the hash of the leaf of an event.
func (p parsedProof) leaf(event any) ([]byte, error) {
	text, err := json.Marshal(event)
	if err != nil {
		return nil, unproved("different_event", "the event is not JSON: %v", err)
	}
	var e any
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, unproved("different_event", "the event is not JSON: %v", err)
	}
	for _, path := range p.extra.Added {
		if !without(e, strings.Split(path, ".")) {
			return nil, unproved("hidden_value", "the proof leaves out %s, which has a value", path)
		}
	}
	entry := map[string]any{"event": e, "private": p.extra.Private, "recordedAt": p.extra.RecordedAt}
	sum := sha256.Sum256(canonical([]byte{0}, entry))
	return sum[:], nil
}

// without removes the member of a path. It returns false if the member has a value.
func without(of any, path []string) bool {
	switch of := of.(type) {
	case map[string]any:
		value, found := of[path[0]]
		if len(path) > 1 && found {
			return without(value, path[1:])
		}
		if list, ok := value.([]any); found && value != nil && value != "" && value != "unknown" && (!ok || len(list) > 0) {
			return false
		}
		if len(path) == 1 {
			delete(of, path[0])
		}
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(of) && len(path) > 1 {
			return without(of[i], path[1:])
		}
	}
	return true
}

// canonical appends canonical JSON (RFC 8785) of a decoded value.
func canonical(out []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare(units(a), units(b)) })
		out = append(out, '{')
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = canonical(append(canonical(out, name), ':'), v[name])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, element := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = canonical(out, element)
		}
		return append(out, ']')
	case string:
		return canonicalString(out, v)
	default: // encoding/json writes numbers as RFC 8785 does
		text, _ := json.Marshal(v)
		return append(out, text...)
	}
}

func canonicalString(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= ' ':
			out = append(out, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			out = append(out, '\\', "btn_fr"[c-'\b'])
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return append(out, '"')
}

// units returns the UTF-16 code units by which RFC 8785 orders names.
func units(s string) []uint16 { return utf16.Encode([]rune(s)) }

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
