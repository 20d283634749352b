package e2e

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/api"
)

// TestEventIsProvedToAReaderOutside proves an event with a log and a reader in processes of their
// own, and a witness. Then the data directory is restored to an earlier copy, in which all services
// agree: only the witness can tell, and nothing is published beside what it has seen.
func TestEventIsProvedToAReaderOutside(t *testing.T) {
	t.Parallel()
	dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	settings := []string{"OPPORTUNITY_LINK_CHECKS=false", "OPPORTUNITY_HISTORY_LOG_NAME=opportunity.example/log"}
	u := upWith(t, dir, "none", settings...)
	u.verb(t, listing("good-one"), "listings", "import", "-")
	check := func(note string) string { return linkCheck("good-one", note) }
	published := func(path string) (r response) { // polls use up what a network may read without a key
		eventually(t, "the network may read", func() bool {
			r = get(t, u.url, "", "/.well-known/opportunity-history"+path)
			return r.StatusCode != http.StatusTooManyRequests
		})
		return r
	}
	checkpoint := func() string { return string(published("/log/checkpoint").body) }
	u.verb(t, check("first"), "events", "append", "-")
	eventually(t, "the first event is covered",
		func() bool { return strings.HasPrefix(checkpoint(), "opportunity.example/log\n1\n") })
	document := decode[struct {
		Origin, Checkpoint    string
		PublicKeys, Witnesses []string
	}](t, published(""))
	logKey := document.PublicKeys[0]
	require.True(t, strings.HasPrefix(logKey, "opportunity.example/log+"), logKey)
	u.interrupt(t)
	require.Zero(t, u.wait(t))
	require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))

	witnessKey, address := startWitness(t, logKey)
	settings = append(settings, "OPPORTUNITY_HISTORY_WITNESSES="+witnessKey+" "+address)
	u = upWith(t, dir, "none", settings...)
	u.verb(t, check("second"), "events", "append", "-")
	cosigned := func(events string) func() bool {
		return func() bool {
			text := checkpoint()
			return strings.HasPrefix(text, "opportunity.example/log\n"+events+"\n") &&
				strings.Contains(text, "\n— witness.example ")
		}
	}
	eventually(t, "the second event is cosigned", cosigned("2"))
	key := u.issue(t, api.Commercial).Key
	event := read[api.EventList](t, u.url, key, listPath+"/good-one/history").Data[0]
	proof := published("/log/proof/" + event.ID)
	require.Equal(t, http.StatusOK, proof.StatusCode)
	samples, err := goSamples() // with the command of the SDKs
	require.NoError(t, err)
	command, outside := filepath.Join(samples, "opportunity-data"),
		[]string{"verify", "-", "--key", logKey, "--witness", witnessKey}
	out, errs, code := run(t, nil, string(proof.body), command, outside...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "by witness.example")
	require.Contains(t, out, "note      \"second\"\n")
	_, errs, code = run(t, nil, forged(t, proof.body), command, outside...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "not proved: the event differs")
	require.Equal(t, u.verb(t, "", "history", "prove", event.ID), string(proof.body))
	u.interrupt(t)
	require.Zero(t, u.wait(t))

	u = startUp(t, backup, "none", settings...) // it may never be ready: history may notice first
	eventually(t, "history notices that it was set back", func() bool {
		resp, err := try(t.Context(), u.adminURL, call{path: "/readyz"})
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(u.out.String()+u.logged(t), "database set back")
	})
	_, errs, code = u.tryVerb(t, check("another second"), "events", "append", "-")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "set back")
	require.NotContains(t, checkpoint(), "opportunity.example/log\n2\n")
}

// forged returns a proof with another event.
func forged(t *testing.T, proof []byte) string {
	t.Helper()
	lines := strings.SplitN(string(proof), "\n", 3)
	leaf, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	require.NoError(t, err)
	lines[1] = "extra " + base64.StdEncoding.EncodeToString(bytes.Replace(leaf, []byte("second"), []byte("other!"), 1))
	return strings.Join(lines, "\n")
}

// startWitness starts a witness of one log, in this process, and returns its key and its address.
// It cosigns what extends the last checkpoint that it has seen, and shows that one.
func startWitness(t *testing.T, logKey string) (key, address string) {
	t.Helper()
	log, err := note.NewVerifier(logKey)
	require.NoError(t, err)
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	signer, err := torchwood.NewCosignatureSigner("witness.example", private)
	require.NoError(t, err)
	policy := torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(log.Name()), torchwood.SingleVerifierPolicy(log))
	var mu sync.Mutex
	var seen torchwood.Checkpoint
	var shown []byte
	add := func(body string) (status int, reply string) {
		head, signed, _ := strings.Cut(body, "\n\n")
		lines := strings.Split(head, "\n")
		c, opened, err := torchwood.VerifyCheckpoint([]byte(signed), policy)
		if err != nil {
			return http.StatusForbidden, err.Error()
		}
		if lines[0] != fmt.Sprintf("old %d", seen.N) {
			return http.StatusConflict, fmt.Sprintf("%d\n", seen.N)
		}
		var proof tlog.TreeProof
		for _, line := range lines[1:] {
			h, err := tlog.ParseHash(line)
			if err != nil {
				return http.StatusBadRequest, err.Error()
			}
			proof = append(proof, h)
		}
		if seen.N > 0 && c.Tree != seen.Tree && tlog.CheckTree(proof, c.N, c.Hash, seen.N, seen.Hash) != nil {
			return http.StatusUnprocessableEntity, ""
		}
		cosigned, err := note.Sign(opened, signer)
		if err != nil {
			return http.StatusInternalServerError, err.Error()
		}
		seen, shown = c, cosigned
		return http.StatusOK, strings.TrimPrefix(string(cosigned), signed)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet {
			_, _ = w.Write(shown)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		status, reply := add(string(body))
		if status == http.StatusConflict {
			w.Header().Set("Content-Type", "text/x.tlog.size")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(server.Close)
	return signer.Verifier().String(), server.URL
}
