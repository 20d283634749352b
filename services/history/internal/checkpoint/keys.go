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

	"golang.org/x/mod/sumdb/note"
)

// Config holds the settings for the keys, the log and its witnesses.
type Config struct {
	SigningKeys []string `env:"OPPORTUNITY_HISTORY_SIGNING_KEY" doc:"Secret. Seeds of the Ed25519 keys that sign checkpoints of the history, 32 bytes in hexadecimal each, newest first. The first key signs; all keys verify. Empty: no checkpoints are made."`
	PublicKeys  []string `env:"OPPORTUNITY_HISTORY_PUBLIC_KEYS" doc:"Public keys of retired signing keys, as checkpoints publish them; signatures of these keys stay valid. Enough for the verb verify, which needs no signing key."`
	LogName     string   `env:"OPPORTUNITY_HISTORY_LOG_NAME" doc:"Name of the log of the history, the origin of its checkpoints: a host and a path, such as api.example.com/opportunity-history. No other log may have it. Do not change it later: a log with another name starts empty for its witnesses. Empty: host and path of OPPORTUNITY_PUBLIC_URL and /opportunity-history."`
	Witnesses   []string `env:"OPPORTUNITY_HISTORY_WITNESSES" doc:"Witnesses that cosign the checkpoints of the log, separated by commas: the verifier key of each, a space and its URL."`
	Threshold   int      `env:"OPPORTUNITY_HISTORY_WITNESS_THRESHOLD" envDefault:"0" doc:"Cosignatures that a checkpoint of the log needs before it is published. 0: those of all witnesses. If fewer witnesses can be reached for half a minute, it is published with theirs."`
}

// Keys parses the configured keys.
func (c Config) Keys() (Keys, error) { return ParseKeys(c.SigningKeys, c.PublicKeys) }

// Validate returns an error if a setting is malformed. The error never contains a seed.
func (c Config) Validate() error {
	var errs []error
	if _, err := c.Keys(); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_SIGNING_KEY, OPPORTUNITY_HISTORY_PUBLIC_KEYS: %w", err))
	}
	if strings.ContainsFunc(c.LogName, func(r rune) bool { return unicode.IsSpace(r) || r == '+' }) {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_LOG_NAME: %q has a space or a plus sign: use a host and a path such as api.example.com/opportunity-history", c.LogName))
	}
	witnesses, err := c.witnesses()
	if err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_WITNESSES: %w", err))
	}
	if c.Threshold < 0 || c.Threshold > len(witnesses) && err == nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_HISTORY_WITNESS_THRESHOLD: %d is not between 0 and the number of witnesses, %d", c.Threshold, len(witnesses)))
	}
	return errors.Join(errs...)
}

func (c Config) witnesses() (all []Witness, err error) {
	for _, text := range c.Witnesses {
		w, err := ParseWitness(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other Witness) bool { return other.Name() == w.Name() }) {
			return nil, fmt.Errorf("two witnesses are named %s", w.Name())
		}
		all = append(all, w)
	}
	return all, nil
}

// Log returns the log with the settings. The caller must set its functions. publicURL is that of the gateway.
func (c Config) Log(store LogStore, publicURL string) (l Log, err error) {
	l = Log{Store: store, Name: c.LogName, Threshold: cmp.Or(c.Threshold, len(c.Witnesses))}
	if l.Keys, err = c.Keys(); err != nil {
		return l, err
	}
	if l.Witnesses, err = c.witnesses(); err != nil {
		return l, err
	}
	if l.Name == "" {
		_, address, _ := strings.Cut(publicURL, "://")
		l.Name = strings.TrimSuffix(address, "/") + "/" + Origin
	}
	return l, nil
}

// Keys holds the Ed25519 keys of the history: at most one that signs, and every trusted one. Each is used under two names: Origin for daily
// checkpoints, and the origin of the log for its checkpoints.
type Keys struct {
	signing ed25519.PrivateKey // nil without a signing key
	trusted []ed25519.PublicKey
}

// ParseKeys parses the seeds of Ed25519 signing keys, each 32 bytes in hexadecimal, newest first, and the public keys of retired
// signing keys. The first seed signs; all keys are trusted. The error never contains a seed.
func ParseKeys(seeds, retired []string) (k Keys, err error) {
	for _, text := range seeds {
		seed, err := hex.DecodeString(strings.TrimSpace(text))
		if err != nil || len(seed) != ed25519.SeedSize {
			return Keys{}, errors.New("signing key must be 32 bytes in hexadecimal")
		}
		key := ed25519.NewKeyFromSeed(seed)
		if k.signing == nil {
			k.signing = key
		}
		k.trusted = append(k.trusted, key.Public().(ed25519.PublicKey))
	}
	for _, public := range retired {
		v, err := note.NewVerifier(strings.TrimSpace(public))
		if err != nil || v.Name() != Origin {
			return Keys{}, fmt.Errorf("%q is not a public key of %s, such as %s+0badc0de+base64", public, Origin, Origin)
		}
		data, _ := base64.StdEncoding.DecodeString(strings.SplitN(public, "+", 3)[2]) // valid: NewVerifier decodes it
		k.trusted = append(k.trusted, data[1:])
	}
	return k, nil
}

// Signs reports whether a signing key is configured.
func (k Keys) Signs() bool { return k.signing != nil }

// Public returns the trusted public keys for daily checkpoints, the signing key first, in the format of signed notes: name+hash+base64.
func (k Keys) Public() []string { return k.PublicAs(Origin) }

// PublicAs returns the trusted public keys under a name.
func (k Keys) PublicAs(name string) []string {
	public := make([]string, len(k.trusted))
	for i, key := range k.trusted {
		public[i], _ = note.NewEd25519VerifierKey(name, key) // fails only for keys of another length
	}
	return public
}

// Sign returns the signed text of c.
func (k Keys) Sign(c Checkpoint) (string, error) { return k.sign(Origin, c.text()) }

// SignLog returns the signed text of a checkpoint of the log.
func (k Keys) SignLog(c LogCheckpoint) (string, error) { return k.sign(c.Origin, c.logText()) }

// sign signs a text under a name.
func (k Keys) sign(name, text string) (string, error) {
	if k.signing == nil {
		return "", errors.New("no signing key")
	}
	const ed25519Kind = 1
	hash := strings.SplitN(k.PublicAs(name)[0], "+", 3)[1]
	secret := base64.StdEncoding.EncodeToString(append([]byte{ed25519Kind}, k.signing.Seed()...))
	signer, err := note.NewSigner("PRIVATE+KEY+" + name + "+" + hash + "+" + secret)
	if err != nil {
		return "", errors.New("signing key cannot be used") // err may quote the key
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	return string(signed), err
}

// Open verifies a signed text and returns its checkpoint. It returns an error unless a trusted key signed the text.
func (k Keys) Open(signed string) (Checkpoint, error) {
	text, err := k.open(Origin, signed)
	if err != nil {
		return Checkpoint{}, err
	}
	return parse(text)
}

// open verifies a text that was signed under a name and returns it without signatures.
func (k Keys) open(name, signed string) (string, error) {
	var verifiers []note.Verifier
	for _, public := range k.PublicAs(name) {
		v, err := note.NewVerifier(public)
		if err != nil {
			return "", err
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) {
		return "", errors.New("no key of this history signed it")
	}
	if err != nil {
		return "", fmt.Errorf("the signature is not valid: %w", err)
	}
	return n.Text, nil
}

// openLog verifies a signed checkpoint of the log of any origin.
func (k Keys) openLog(signed string) (LogCheckpoint, error) {
	origin, _, _ := strings.Cut(signed, "\n")
	text, err := k.open(origin, signed)
	if err != nil {
		return LogCheckpoint{}, err
	}
	c, err := parseLog(text)
	c.Note = signed
	return c, err
}

// Verified returns a stored checkpoint of the log with the signed values.
func (k Keys) Verified(c LogCheckpoint) (LogCheckpoint, error) {
	signed, err := k.openLog(c.Note)
	if err != nil {
		return c, fmt.Errorf("opening checkpoint of the first %d events: %w", c.Size, err)
	}
	signed.MadeAt, signed.Cosignatures = c.MadeAt, c.Cosignatures
	return signed, nil
}
