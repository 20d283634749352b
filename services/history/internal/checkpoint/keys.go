package checkpoint

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"opportunity.internal/services/history/internal/store"
)

// Config holds the settings for the keys, the log and its witnesses.
type Config struct {
	SigningKeys []string `env:"OPPORTUNITY_HISTORY_SIGNING_KEY" doc:"Secret. Seeds of the Ed25519 keys that sign checkpoints of the history, 32 bytes in hexadecimal each, newest first. The first key signs; all keys verify. Empty: no checkpoints are made."`
	PublicKeys  []string `env:"OPPORTUNITY_HISTORY_PUBLIC_KEYS" doc:"Public keys of retired signing keys, as /.well-known/opportunity-history publishes them; signatures of these keys stay valid. Enough for the verb verify, which needs no signing key."`
	LogName     string   `env:"OPPORTUNITY_HISTORY_LOG_NAME" doc:"Name of the log of the history, the origin of its checkpoints: a host and a path, such as api.example.com/opportunity-history. No other log may have it. Do not change it later: a log with another name starts empty for its witnesses. Empty: host and path of OPPORTUNITY_PUBLIC_URL and /opportunity-history."`
	Witnesses   []string `env:"OPPORTUNITY_HISTORY_WITNESSES" doc:"Witnesses that cosign the checkpoints of the log, separated by commas: the verifier key of each, a space and its URL."`
	Threshold   int      `env:"OPPORTUNITY_HISTORY_WITNESS_THRESHOLD" envDefault:"0" doc:"Cosignatures that a checkpoint of the log needs before it is published. 0: those of all witnesses. If fewer witnesses can be reached for half a minute, it is published with theirs."`
}

// Validate returns an error that names every malformed setting. The error never contains a seed.
func (c Config) Validate() error {
	_, err := c.Log(nil, "")
	return err
}

// Log returns the log with the settings. The caller must set its functions. publicURL is that of
// the gateway. The error names every malformed setting, and never contains a seed.
func (c Config) Log(s *store.Store, publicURL string) (l Log, err error) {
	l = Log{Store: s, Name: c.LogName, Threshold: cmp.Or(c.Threshold, len(c.Witnesses))}
	var errs []error
	if l.Keys, err = c.Keys(); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_SIGNING_KEY, OPPORTUNITY_HISTORY_PUBLIC_KEYS: %w", err))
	}
	if l.Name == "" {
		_, address, _ := strings.Cut(publicURL, "://")
		l.Name = strings.TrimSuffix(address, "/") + "/opportunity-history"
	}
	if strings.ContainsFunc(c.LogName, func(r rune) bool { return unicode.IsSpace(r) || r == '+' }) {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_LOG_NAME: %q has a space or a plus sign: use a host and a "+
			"path such as api.example.com/opportunity-history", c.LogName))
	}
	for _, text := range c.Witnesses {
		w, err := ParseWitness(text)
		if err == nil && slices.ContainsFunc(l.Witnesses, func(other Witness) bool { return other.Name() == w.Name() }) {
			err = fmt.Errorf("two witnesses are named %s", w.Name())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_WITNESSES: %w", err))
		}
		l.Witnesses = append(l.Witnesses, w)
	}
	if c.Threshold < 0 || c.Threshold > len(c.Witnesses) {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_WITNESS_THRESHOLD: %d is not between 0 and the number of "+
			"witnesses, %d", c.Threshold, len(c.Witnesses)))
	}
	return l, errors.Join(errs...)
}

// Keys holds the Ed25519 keys of the history: at most one that signs, and every trusted one. The
// name of a key is the origin of the checkpoint.
type Keys struct {
	signing ed25519.PrivateKey // nil without a signing key
	trusted []ed25519.PublicKey
}

// Keys parses the configured keys. The first seed signs; all keys are trusted. The error never
// contains a seed.
func (c Config) Keys() (k Keys, err error) {
	for _, text := range c.SigningKeys {
		seed, err := hex.DecodeString(strings.TrimSpace(text))
		if err != nil || len(seed) != ed25519.SeedSize {
			return Keys{}, errors.New("signing key must be 32 bytes in hexadecimal")
		}
		key := ed25519.NewKeyFromSeed(seed)
		if k.signing == nil {
			k.signing = key
		}
		k.trust(key.Public().(ed25519.PublicKey))
	}
	for _, public := range c.PublicKeys {
		public = strings.TrimSpace(public)
		if _, err := note.NewVerifier(public); err != nil {
			return Keys{}, fmt.Errorf("%q is not a public key such as api.example.com/opportunity-history+0badc0de+base64",
				public)
		}
		data, _ := base64.StdEncoding.DecodeString(strings.SplitN(public, "+", 3)[2]) // valid: NewVerifier decodes it
		k.trust(data[1:])
	}
	return k, nil
}

func (k *Keys) trust(key ed25519.PublicKey) {
	if !slices.ContainsFunc(k.trusted, func(other ed25519.PublicKey) bool { return other.Equal(key) }) {
		k.trusted = append(k.trusted, key)
	}
}

// Signs reports whether a signing key is configured.
func (k Keys) Signs() bool { return k.signing != nil }

// Public returns the trusted public keys for an origin, the signing key first, in the format of
// signed notes: name+hash+base64.
func (k Keys) Public(origin string) []string {
	public := make([]string, len(k.trusted))
	for i, key := range k.trusted {
		public[i], _ = note.NewEd25519VerifierKey(origin, key) // fails only for keys of another length
	}
	return public
}

// Sign returns the signed text of c.
func (k Keys) Sign(c torchwood.Checkpoint) (string, error) {
	if k.signing == nil {
		return "", errors.New("no signing key")
	}
	const ed25519Kind = 1
	hash := strings.SplitN(k.Public(c.Origin)[0], "+", 3)[1]
	secret := base64.StdEncoding.EncodeToString(append([]byte{ed25519Kind}, k.signing.Seed()...))
	signer, err := note.NewSigner("PRIVATE+KEY+" + c.Origin + "+" + hash + "+" + secret)
	if err != nil {
		return "", errors.New("signing key cannot be used") // err may quote the key
	}
	signed, err := note.Sign(&note.Note{Text: c.String()}, signer)
	return string(signed), err
}

// Open verifies a signed checkpoint of any origin, and returns it without cosignatures. It returns
// an error unless a trusted key signed it.
func (k Keys) Open(signed string) (c Checkpoint, err error) {
	origin, _, _ := strings.Cut(signed, "\n")
	var trusted []note.Verifier
	for _, public := range k.Public(origin) {
		if v, err := note.NewVerifier(public); err == nil { // otherwise the first line is no name of a key
			trusted = append(trusted, v)
		}
	}
	opened, err := note.Open([]byte(signed), note.VerifierList(trusted...))
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) {
		return c, errors.New("no key of this history signed it")
	}
	if err != nil {
		return c, fmt.Errorf("the signature is not valid: %w", err)
	}
	c.Note = signed
	if c.Checkpoint, err = torchwood.ParseCheckpoint(opened.Text); err != nil || c.N < 1 || c.Extension != "" {
		return c, errors.New("not a checkpoint of this log")
	}
	return c, nil
}

// Verified returns a stored checkpoint with the signed values.
func (k Keys) Verified(stored store.Checkpoint) (Checkpoint, error) {
	c, err := k.Open(stored.Note)
	if err == nil && (c.Origin != stored.Origin || c.N != stored.Size) {
		err = errors.New("it is of another origin or size")
	}
	if err != nil {
		return c, fmt.Errorf("checkpoint of the first %d events: %w", stored.Size, err)
	}
	return c, nil
}
