// Package witness implements a witness of transparency logs (C2SP tlog-witness): it cosigns a checkpoint only if that extends everything that
// it has seen of the log.
package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/cosignature"
)

const (
	maxRequest = 64 << 10 // bytes
	maxProof   = 63       // hashes
)

// Witness cosigns the checkpoints of the logs whose keys it knows. It implements http.Handler.
type Witness struct {
	signer cosignature.Signer
	logs   map[string]note.Verifiers // by origin
	log    *slog.Logger
	store  Store

	mu   sync.Mutex // held from the comparison with what was seen until it is stored
	seen map[string]string

	mux *http.ServeMux
}

// Store stores the state, a note for each origin: the newest cosigned checkpoint.
type Store interface {
	Read(name string, out any) error
	Save(name string, v any) error // durably
}

const stateFile = "witness.json"

// New returns a witness of the logs with the verifier keys, with the state of store.
func New(signer cosignature.Signer, keys []string, store Store, log *slog.Logger) (*Witness, error) {
	w := &Witness{signer: signer, logs: map[string]note.Verifiers{}, log: log, store: store, seen: map[string]string{}, mux: http.NewServeMux()}
	known := map[string][]note.Verifier{}
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("%q is not the key of a log, such as log.example+0badc0de+base64 of type 1 (Ed25519)", key)
		}
		known[v.Name()] = append(known[v.Name()], v)
	}
	for origin, verifiers := range known {
		w.logs[origin] = note.VerifierList(verifiers...)
	}
	if err := store.Read(stateFile, &w.seen); err != nil {
		return nil, err
	}
	for origin, text := range w.seen {
		if c, err := parseCheckpoint(noteText(text)); err != nil || c.origin != origin {
			return nil, fmt.Errorf("state of %s is not a checkpoint: restore %s, and never begin with an older one", origin, stateFile)
		}
	}
	w.mux.HandleFunc("POST /add-checkpoint", w.addCheckpoint)
	w.mux.HandleFunc("GET /{hash}/checkpoint", w.checkpoint)
	w.mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return w, nil
}

func (w *Witness) ServeHTTP(out http.ResponseWriter, r *http.Request) { w.mux.ServeHTTP(out, r) }

// checkpoint serves the newest cosigned checkpoint of the log whose origin has a SHA-256.
func (w *Witness) checkpoint(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for origin, text := range w.seen {
		if sum := sha256.Sum256([]byte(origin)); hex.EncodeToString(sum[:]) == r.PathValue("hash") {
			out.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(out, text)
			return
		}
	}
	http.Error(out, "no checkpoint of this log was cosigned", http.StatusNotFound)
}

// rejection is an error with the status that the protocol demands.
type rejection struct {
	status int
	text   string
}

func (r rejection) Error() string { return r.text }

// conflict is the error of a checkpoint that was submitted after another one than the newest; its value is the size of the newest one.
type conflict int64

func (c conflict) Error() string { return fmt.Sprintf("the newest checkpoint has size %d", int64(c)) }

func (w *Witness) addCheckpoint(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(out, r.Body, maxRequest))
	if err != nil {
		http.Error(out, "the request is larger than 64 KiB or incomplete", http.StatusBadRequest)
		return
	}
	reply, err := w.add(string(body))
	rejected, newer := rejection{}, conflict(0)
	switch {
	case err == nil:
		_, _ = io.WriteString(out, reply)
	case errors.As(err, &newer):
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		fmt.Fprintf(out, "%d\n", int64(newer))
	case errors.As(err, &rejected):
		if rejected.status == http.StatusUnprocessableEntity {
			w.log.Warn("checkpoint rejected", "err", err, "checkpoint", string(body))
		}
		http.Error(out, rejected.text, rejected.status)
	default:
		w.log.Error("storing checkpoint failed", "err", err)
		http.Error(out, "the checkpoint could not be stored", http.StatusInternalServerError)
	}
}

// add returns the cosignature line of the checkpoint in a request.
func (w *Witness) add(body string) (line string, err error) {
	old, proof, signed, err := parseRequest(body)
	if err != nil {
		return "", err
	}
	origin, _, _ := strings.Cut(signed, "\n")
	verifiers, known := w.logs[origin]
	if !known {
		return "", rejection{http.StatusNotFound, "this witness does not know the log"}
	}
	opened, err := note.Open([]byte(signed), verifiers)
	if errors.As(err, new(*note.UnverifiedNoteError)) || errors.As(err, new(*note.InvalidSignatureError)) {
		return "", rejection{http.StatusForbidden, "the checkpoint has no valid signature of a known key of the log"}
	}
	var c checkpoint
	if err == nil {
		c, err = parseCheckpoint(opened.Text)
	}
	if err != nil || old > c.size {
		return "", rejection{http.StatusBadRequest, "the checkpoint is malformed, or smaller than the old size"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.compare(c, old, proof); err != nil {
		return "", err
	}
	cosigned, err := note.Sign(&note.Note{Text: opened.Text, Sigs: opened.Sigs}, w.signer) // without signatures of unknown keys
	if err != nil {
		return "", err
	}
	before, again := w.seen[origin]
	w.seen[origin] = string(cosigned)
	if err := w.store.Save(stateFile, w.seen); err != nil {
		if delete(w.seen, origin); again {
			w.seen[origin] = before
		}
		return "", err
	}
	w.log.Info("checkpoint cosigned", "origin", origin, "size", c.size)
	lines := strings.Split(strings.TrimSuffix(string(cosigned), "\n"), "\n")
	return lines[len(lines)-1] + "\n", nil // note.Sign writes the new signature last
}

// compare returns an error unless c extends the newest cosigned checkpoint, which must have the size old.
func (w *Witness) compare(c checkpoint, old int64, proof tlog.TreeProof) error {
	var newest checkpoint
	if text, ok := w.seen[c.origin]; ok {
		newest, _ = parseCheckpoint(noteText(text)) // New and add have parsed it
	}
	fits := len(proof) == 0
	switch {
	case old != newest.size:
		return conflict(newest.size)
	case c.size == 0:
		fits = fits && c.root == sha256.Sum256(nil)
	case old == c.size:
		fits = fits && c.root == newest.root
	case old > 0:
		fits = tlog.CheckTree(proof, c.size, c.root, old, newest.root) == nil
	}
	if !fits {
		return rejection{http.StatusUnprocessableEntity, "the checkpoint does not extend the newest one, or the proof is not valid"}
	}
	return nil
}

// parseRequest parses the body of an add-checkpoint request.
func parseRequest(body string) (old int64, proof tlog.TreeProof, signed string, err error) {
	malformed := rejection{http.StatusBadRequest, "want \"old\" and a size, up to 63 hashes, an empty line and a checkpoint"}
	head, signed, found := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	size, ok := strings.CutPrefix(lines[0], "old ")
	if old, err = parseSize(size); !found || !ok || err != nil || len(lines) > 1+maxProof {
		return 0, nil, "", malformed
	}
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil || h.String() != line {
			return 0, nil, "", malformed
		}
		proof = append(proof, h)
	}
	return old, proof, signed, nil
}

type checkpoint struct {
	origin string
	size   int64
	root   tlog.Hash
}

var errCheckpoint = errors.New("not a checkpoint")

// parseCheckpoint parses the text of a checkpoint. Lines after the third are extensions.
func parseCheckpoint(text string) (c checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" || lines[len(lines)-1] != "" {
		return c, errCheckpoint
	}
	c.origin = lines[0]
	if c.size, err = parseSize(lines[1]); err != nil {
		return c, err
	}
	if c.root, err = tlog.ParseHash(lines[2]); err != nil || c.root.String() != lines[2] {
		return c, errCheckpoint
	}
	for _, extension := range lines[3 : len(lines)-1] {
		if extension == "" {
			return c, errCheckpoint
		}
	}
	return c, nil
}

// noteText returns the text of a note without its signatures.
func noteText(signed string) string {
	at := strings.LastIndex(signed, "\n\n")
	return signed[:max(0, at+1)]
}

// maxSize is above the size of every log, and far below the greatest int64.
const maxSize = 1 << 60

func parseSize(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxSize || strconv.FormatInt(n, 10) != text {
		return 0, errCheckpoint
	}
	return n, nil
}
