package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/cmd/opportunity/internal/datadir"
	"opportunity.internal/pkg/cosignature"
)

// testLog is a log that is not one of ours: any entries, and any name.
type testLog struct {
	t      testing.TB
	name   string
	signer note.Signer
	key    string
	hashes []tlog.Hash
	size   int64
}

func newLog(t testing.TB, name, seed string) *testLog {
	t.Helper()
	secret, public, err := note.GenerateKey(strings.NewReader(strings.Repeat(seed, 32)), name)
	require.NoError(t, err)
	signer, err := note.NewSigner(secret)
	require.NoError(t, err)
	return &testLog{t: t, name: name, signer: signer, key: public}
}

// ReadHashes implements tlog.HashReader.
func (l *testLog) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

func (l *testLog) grow(n int, entry string) *testLog {
	for range n {
		added, err := tlog.StoredHashes(l.size, fmt.Appendf(nil, "%s %d", entry, l.size), l)
		require.NoError(l.t, err)
		l.hashes, l.size = append(l.hashes, added...), l.size+1
	}
	return l
}

func (l *testLog) checkpoint(size int64, extension string) string {
	root, err := tlog.TreeHash(size, l)
	require.NoError(l.t, err)
	return l.sign(fmt.Sprintf("%s\n%d\n%s\n%s", l.name, size, root, extension))
}

func (l *testLog) sign(text string) string {
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	require.NoError(l.t, err)
	return string(signed)
}

// request returns the submission of a checkpoint after the one of size old.
func (l *testLog) request(old, size int64) string {
	body := fmt.Sprintf("old %d\n", old)
	if old > 0 && old < size {
		proof, err := tlog.ProveTree(size, old, l)
		require.NoError(l.t, err)
		for _, h := range proof {
			body += h.String() + "\n"
		}
	}
	return body + "\n" + l.checkpoint(size, "")
}

var at = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func newWitness(t testing.TB, store Store, keys ...string) (*Witness, cosignature.Signer) {
	t.Helper()
	signer, err := cosignature.NewSigner("witness.example", ed25519.NewKeyFromSeed([]byte(strings.Repeat("w", 32))), func() time.Time { return at })
	require.NoError(t, err)
	w, err := New(signer, keys, store, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return w, signer
}

func directory(t testing.TB, path string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(path)
	require.NoError(t, err)
	return d
}

func post(w *Witness, body string) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/add-checkpoint", strings.NewReader(body)))
	return out
}

func shown(w *Witness, origin string) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(origin))), nil))
	return out
}

// Another implementation verifies what the witness cosigns, and it goes on where it was after a restart.
func TestWitnessCosignsALogThatGrows(t *testing.T) {
	path := t.TempDir()
	l := newLog(t, "sum.example", "a").grow(300, "entry")
	dir := directory(t, path)
	w, signer := newWitness(t, dir, l.key)
	require.Equal(t, 404, shown(w, l.name).Code)
	verifier, err := torchwood.NewCosignatureVerifier(signer.PublicKey())
	require.NoError(t, err)
	old := int64(0)
	for _, size := range []int64{0, 1, 2, 2, 255, 300} {
		body := l.request(old, size)
		if size == 0 {
			body = "old 0\n\n" + l.sign(fmt.Sprintf("%s\n0\n%s\n", l.name, tlog.Hash(sha256.Sum256(nil))))
		}
		reply := post(w, body)
		require.Equal(t, 200, reply.Code, reply.Body)
		_, signed, _ := strings.Cut(body, "\n\n")
		opened, err := note.Open([]byte(signed+reply.Body.String()), note.VerifierList(verifier))
		require.NoError(t, err)
		seen, err := torchwood.CosignatureTimestamp(opened.Sigs[0])
		require.NoError(t, err)
		require.Equal(t, at.Unix(), seen)
		require.Equal(t, signed+reply.Body.String(), shown(w, l.name).Body.String())
		old = size
	}
	dir.Unlock()
	dir = directory(t, path)
	defer dir.Unlock()
	w, _ = newWitness(t, dir, l.key)
	require.Equal(t, "300\n", post(w, l.request(0, 10)).Body.String())
	require.Equal(t, 200, post(w, l.request(300, 300)).Code)
}

func TestWitnessFollowsTheProtocol(t *testing.T) {
	l, other, fork := newLog(t, "log.example", "a").grow(9, "entry"), newLog(t, "other.example", "b").grow(3, "entry"), newLog(t, "log.example", "a").grow(9, "forged")
	stolen := newLog(t, "log.example", "c").grow(9, "entry")
	dir := directory(t, t.TempDir())
	defer dir.Unlock()
	w, _ := newWitness(t, dir, l.key)
	require.Equal(t, 200, post(w, l.request(0, 5)).Code)
	before := shown(w, l.name).Body.String()
	good := l.request(5, 9)
	lines := strings.SplitN(good, "\n", 3)
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"unknown log":               {other.request(0, 3), 404},
		"unknown key of the log":    {stolen.request(5, 9), 403},
		"changed signature":         {good[:len(good)-12] + "AAAA" + good[len(good)-8:], 403},
		"changed text":              {strings.Replace(good, "\n9\n", "\n8\n", 1), 403},
		"no signature":              {strings.Split(good, "— ")[0], 400},
		"other old size":            {l.request(4, 9), 409},
		"rollback":                  {l.request(0, 4), 409},
		"fork":                      {fork.request(5, 9), 422},
		"fork of the same size":     {fork.request(5, 5), 422},
		"proof missing":             {"old 5\n\n" + l.checkpoint(9, ""), 422},
		"proof of another":          {"old 5\n" + lines[1] + "\n" + lines[1] + "\n\n" + l.checkpoint(9, ""), 422},
		"proof for the same size":   {"old 5\n" + lines[1] + "\n\n" + l.checkpoint(5, ""), 422},
		"old above the size":        {l.request(9, 5), 400},
		"old with a leading zero":   {strings.Replace(good, "old 5", "old 05", 1), 400},
		"negative old":              {strings.Replace(good, "old 5", "old -5", 1), 400},
		"no old":                    {strings.Replace(good, "old 5\n", "", 1), 400},
		"64 hashes":                 {"old 5\n" + strings.Repeat(lines[1]+"\n", 64) + "\n" + l.checkpoint(9, ""), 400},
		"hash that is not one":      {strings.Replace(good, lines[1], "x", 1), 400},
		"no checkpoint":             {strings.Split(good, "\n\n")[0], 400},
		"size that is not a number": {"old 5\n\n" + l.sign("log.example\nx\n"+lines[1]+"\n"), 400},
		"huge size":                 {"old 5\n\n" + l.sign("log.example\n9223372036854775807\n"+lines[1]+"\n"), 400},
		"empty":                     {"", 400},
		"too large":                 {good + strings.Repeat("— a AAAAAAAA\n", 6000), 400},
	} {
		reply := post(w, test.body)
		require.Equal(t, test.status, reply.Code, "%s: %s", name, reply.Body)
		if test.status == http.StatusConflict {
			require.Equal(t, "text/x.tlog.size", reply.Header().Get("Content-Type"))
			require.Equal(t, "5\n", reply.Body.String())
		}
		require.Equal(t, before, shown(w, l.name).Body.String(), name)
	}
	extended := strings.SplitN(good, "\n\n", 2)[0] + "\n\n" + l.checkpoint(9, "extension\n")
	require.Equal(t, 200, post(w, extended).Code)
	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/add-checkpoint", nil))
	require.Equal(t, 405, out.Code)
}

// Submissions at once: the one that wins is stored, and the size never goes back.
func TestConcurrentSubmissionsNeverRollBack(t *testing.T) {
	l := newLog(t, "log.example", "a").grow(64, "entry")
	dir := directory(t, t.TempDir())
	defer dir.Unlock()
	w, _ := newWitness(t, dir, l.key)
	var submitted sync.WaitGroup
	for size := int64(1); size <= 64; size++ {
		submitted.Go(func() {
			for old := int64(0); old < size; {
				reply := post(w, l.request(old, size))
				if reply.Code == http.StatusOK {
					return
				}
				if _, err := fmt.Sscan(reply.Body.String(), &old); err != nil {
					t.Error(reply.Code, reply.Body)
					return
				}
			}
		})
	}
	submitted.Wait()
	require.Contains(t, shown(w, l.name).Body.String(), "\n64\n")
}

type brokenStore struct{ text string }

func (b brokenStore) Read(_ string, out any) error {
	if b.text != "" {
		(*out.(*map[string]string))["log.example"] = b.text
	}
	return nil
}
func (brokenStore) Save(string, any) error { return errors.New("disk full") }

// Nothing is cosigned unless it is stored.
func TestWitnessStoresBeforeItReplies(t *testing.T) {
	l := newLog(t, "log.example", "a").grow(3, "entry")
	w, _ := newWitness(t, brokenStore{}, l.key)
	reply := post(w, l.request(0, 3))
	require.Equal(t, 500, reply.Code)
	require.NotContains(t, reply.Body.String(), "—")
	require.Equal(t, 404, shown(w, l.name).Code)
	require.Equal(t, 500, post(w, l.request(0, 2)).Code, "the old size is still 0")

	signer, err := cosignature.NewSigner("witness.example", ed25519.NewKeyFromSeed([]byte(strings.Repeat("w", 32))), time.Now)
	require.NoError(t, err)
	_, err = New(signer, []string{l.key}, brokenStore{"x"}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "never begin with an older one")
	_, err = New(signer, []string{"x"}, brokenStore{}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "is not the key of a log")
}

func FuzzAdd(f *testing.F) {
	l := newLog(f, "log.example", "a").grow(9, "entry")
	f.Add(l.request(0, 5))
	f.Add(l.request(5, 9))
	w, _ := newWitness(f, brokenStore{}, l.key)
	f.Fuzz(func(t *testing.T, body string) {
		if line, err := w.add(body); err == nil || line != "" {
			t.Error("cosigned without storing")
		}
	})
}
