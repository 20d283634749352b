package store_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/store"
)

const logName = "api.example/opportunity-history"

// witness is a witness for tests: torchwood signs, and x/mod/sumdb/tlog verifies. It keeps the last
// checkpoint.
type witness struct {
	*httptest.Server
	setting string

	t      *testing.T
	size   int64
	root   tlog.Hash
	note   string
	signer note.Signer
	log    note.Verifier
	down   bool
	stuck  bool // it says that it has seen a much larger log
}

func newWitness(t *testing.T, name string) *witness {
	t.Helper()
	seedOf := sha256.Sum256([]byte(name))
	signer, err := torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed(seedOf[:]))
	require.NoError(t, err)
	log, err := note.NewVerifier(keys(t, seed).Public(logName)[0])
	require.NoError(t, err)
	w := &witness{t: t, signer: signer, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /w/add-checkpoint", w.add)
	mux.HandleFunc(fmt.Sprintf("GET /w/%x/checkpoint", sha256.Sum256([]byte(logName))),
		func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, w.note) })
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	w.setting = signer.Verifier().String() + " " + w.URL + "/w"
	return w
}

func (w *witness) add(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || w.down {
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if w.stuck {
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		fmt.Fprint(out, "1000000\n")
		return
	}
	head, signed, _ := strings.Cut(string(body), "\n\n")
	lines := strings.Split(head, "\n")
	var old int64
	_, err = fmt.Sscanf(lines[0], "old %d", &old)
	require.NoError(w.t, err)
	opened, err := note.Open([]byte(signed), note.VerifierList(w.log))
	require.NoError(w.t, err)
	c, err := torchwood.ParseCheckpoint(opened.Text)
	require.NoError(w.t, err)
	require.Empty(w.t, c.Extension)
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		require.NoError(w.t, err)
		proof = append(proof, h)
	}
	switch {
	case old != w.size:
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		fmt.Fprintf(out, "%d\n", w.size)
		return
	case old == c.N && c.Hash != w.root, old > 0 && old < c.N && tlog.CheckTree(proof, c.N, c.Hash, old, w.root) != nil:
		out.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	cosigned, err := note.Sign(opened, w.signer)
	require.NoError(w.t, err)
	w.size, w.root, w.note = c.N, c.Hash, string(cosigned)
	_, signatures, _ := strings.Cut(string(cosigned), "\n\n")
	for line := range strings.Lines(signatures) {
		if strings.HasPrefix(line, "— "+w.signer.Name()+" ") {
			_, _ = io.WriteString(out, line)
		}
	}
}

// log returns the log of the store, whose witnesses have the settings.
func (s testStore) log(t testing.TB, now *time.Time, witnesses ...string) checkpoint.Log {
	t.Helper()
	l, err := checkpoint.Config{SigningKeys: []string{seed}, Witnesses: witnesses}.Log(s.Store, "https://api.example")
	require.NoError(t, err)
	require.Equal(t, logName, l.Name)
	l.Now, l.Log = func() time.Time { return *now }, slog.New(slog.DiscardHandler)
	require.NoError(t, s.Cover(t.Context(), math.MaxInt64)) // the catalog sees events as soon as they are there
	l.Lost = func(context.Context) error { return errLost }
	return l
}

var errLost = errors.New("lost")

// addMany appends n events of one listing.
func (s testStore) addMany(t *testing.T, slug string, n int) {
	t.Helper()
	s.publish(t, slug)
	for i := range n {
		s.add(t, link(slug, i+1, api.OutcomeReachable))
	}
}

func (s testStore) published(t testing.TB, l checkpoint.Log) checkpoint.Checkpoint {
	t.Helper()
	origin, _, _, err := l.Origin(t.Context())
	require.NoError(t, err)
	c, err := l.Published(t.Context(), origin, 0)
	require.NoError(t, err)
	return c
}

// cosignatures returns the number of cosignatures of the published checkpoint.
func (s testStore) cosignatures(t testing.TB, l checkpoint.Log) int {
	t.Helper()
	c := s.published(t, l)
	require.NotZero(t, c.N)
	return strings.Count(c.Note, "\n— ") - 1 // the first signature is the log's
}

// Another implementation verifies every proof and every tile, after each of several checkpoints.
func TestEveryEventIsProved(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		w := newWitness(t, "witness.example")
		l := s.log(t, &now, w.setting)
		verifier, err := note.NewVerifier(l.Keys.Public(logName)[0])
		require.NoError(t, err)
		seen, err := torchwood.NewCosignatureVerifier(strings.Fields(w.setting)[0])
		require.NoError(t, err)
		policy := torchwood.ThresholdPolicy(3, torchwood.OriginPolicy(logName),
			torchwood.SingleVerifierPolicy(verifier), torchwood.SingleVerifierPolicy(seen))
		require.NoError(t, l.Sign(t.Context()))
		require.Zero(t, s.published(t, l).N, "nothing to sign")
		total := 0
		for _, n := range []int{1, 2, 254, 3} { // a full tile, and more
			s.addMany(t, fmt.Sprintf("platform-%d", n), n)
			total += n
			require.NoError(t, l.Sign(t.Context()))
			require.NoError(t, l.Sign(t.Context()), "nothing happened")
			for range 2 { // the second time, nothing is left to do
				require.NoError(t, l.Cosign(t.Context()))
			}
			c := s.published(t, l)
			require.EqualValues(t, total, c.N)
			records, err := s.Records(t.Context(), 0, 1000)
			require.NoError(t, err)
			for _, r := range records {
				proof, err := l.Prove(t.Context(), c, r)
				require.NoError(t, err)
				require.NoError(t, torchwood.VerifyProof(policy, tlog.RecordHash(r.Leaf()), proof))
				leaf, err := torchwood.ProofExtraData(proof)
				require.NoError(t, err)
				require.Equal(t, r.Leaf(), leaf)
			}
		}
		_, err = s.ReadTiles(t.Context(), []tlog.Tile{{H: 8, L: 0, N: 1, W: 256}})
		require.ErrorIs(t, err, store.ErrNoTile, "a partial tile is not a full one")
		report := s.verify(t)
		require.True(t, report.Fits, report.Findings)
		require.EqualValues(t, total, report.Logged)
	})
}

// A witness that cannot be reached delays a checkpoint by half a minute.
func TestWitnessThatIsDownDelaysNothingForLong(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		w := newWitness(t, "witness.example")
		l := s.log(t, &now, w.setting)
		s.addMany(t, "a", 2)
		require.NoError(t, l.Sign(t.Context()))
		w.down = true
		require.ErrorContains(t, l.Cosign(t.Context()), "witness.example: unexpected status 503")
		require.Zero(t, s.published(t, l).N)
		now = now.Add(31 * time.Second)
		require.EqualValues(t, 2, s.published(t, l).N)
		require.Zero(t, s.cosignatures(t, l))
		w.down = false
		require.NoError(t, l.Cosign(t.Context()))
		require.Equal(t, 1, s.cosignatures(t, l))

		// The reply of the witness is lost: the log learns from the next one what it has seen.
		s.addMany(t, "b", 2)
		require.NoError(t, l.Sign(t.Context()))
		other := s.log(t, &now, w.setting)
		require.NoError(t, other.Cosign(t.Context()))
		s.asSuperuser(t, "DELETE FROM log_cosignatures")
		require.NoError(t, l.Cosign(t.Context()))
		require.EqualValues(t, 4, s.published(t, l).N)
	})
}

// A log that was set back and continued, or that a leaked key has signed elsewhere, is rejected,
// and shown the checkpoint that proves it, also if its signature is valid. The service then stops.
func TestWitnessProvesALoss(t *testing.T) {
	for name, continued := range map[string]int{"below": 1, "of the same size": 3, "beside": 5} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s testStore) {
				now := recorded
				w := newWitness(t, "witness.example")
				before := open(t, schema.SQLite(t))
				before.addMany(t, "a", 3)
				require.NoError(t, before.log(t, &now).Sign(t.Context()))
				require.NoError(t, before.log(t, &now, w.setting).Cosign(t.Context()))

				restored := s.log(t, &now, w.setting)
				s.addMany(t, "a", continued)
				require.NoError(t, restored.Sign(t.Context()))
				err := restored.Cosign(t.Context())
				require.ErrorContains(t, err, "the witness rejected the checkpoint")
				require.ErrorIs(t, err, errLost)
				require.Zero(t, s.published(t, restored).N)
			})
		})
	}
}

func TestInvalidRepliesOfWitnessesAreErrors(t *testing.T) {
	s := open(t, schema.SQLite(t))
	now := recorded
	s.addMany(t, "a", 1)
	status, contentType, reply := 0, "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(server.Close)
	key := strings.Fields(newWitness(t, "witness.example").setting)[0]
	l := s.log(t, &now, key+" "+server.URL)
	require.NoError(t, l.Sign(t.Context()))
	for _, test := range []struct {
		status             int
		contentType, reply string
	}{
		{200, "", ""}, {200, "", "— witness.example " + base64.StdEncoding.EncodeToString(make([]byte, 76)) + "\n"},
		{200, "", "<html>"},
		{409, "text/html", "1\n"}, {409, "text/x.tlog.size", "-1\n"}, {409, "text/x.tlog.size", "x"},
		{409, "text/x.tlog.size", "0\n"},
		{404, "", ""}, {403, "", ""}, {302, "", ""}, {200, "", strings.Repeat("x", 70_000)},
	} {
		status, contentType, reply = test.status, test.contentType, test.reply
		require.Error(t, l.Cosign(t.Context()), test)
	}
	now = now.Add(time.Minute)
	require.Zero(t, s.cosignatures(t, l))
	for _, setting := range []string{"", key, key + " ftp://w.example", key + " https://u:p@w.example",
		"x https://w.example", key + " https://w.example?x"} {
		_, err := checkpoint.ParseWitness(setting)
		require.Error(t, err, setting)
	}
}

// A rejection counts only with a checkpoint that the log has signed. Any other one is that of a
// witness which does not work.
func TestWitnessThatAlwaysRejectsBlocksNothing(t *testing.T) {
	for name, shown := range map[string]string{"shows nothing": "", "shows what the log has": "own",
		"shows what the log did not sign": "forged"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, schema.SQLite(t))
			now := recorded
			good, stuck := newWitness(t, "witness.example"), newWitness(t, "stuck.example")
			stuck.stuck = true
			l := s.log(t, &now, good.setting, stuck.setting)
			l.Threshold = 1
			s.addMany(t, "a", 2)
			require.NoError(t, l.Sign(t.Context()))
			c, err := s.NewestCheckpoint(t.Context(), logName, math.MaxInt64)
			require.NoError(t, err)
			switch shown {
			case "own":
				stuck.note = c.Note
			case "forged":
				other := torchwood.Checkpoint{Origin: logName,
					Tree: tlog.Tree{N: 1_000_000, Hash: tlog.RecordHash(nil)}}
				stuck.note, err = keys(t, otherSeed).Sign(other)
				require.NoError(t, err)
			}
			err = l.Cosign(t.Context())
			require.ErrorContains(t, err, "stuck.example: the witness rejected the checkpoint")
			require.NotErrorIs(t, err, errLost)
			require.Equal(t, 1, s.cosignatures(t, l), "the threshold is reached")
			l.Threshold = 2
			require.Zero(t, s.published(t, l).N)
			now = now.Add(31 * time.Second)
			require.EqualValues(t, 2, s.published(t, l).N)
		})
	}
}

func TestNoSecondCheckpointOfASizeIsPublished(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		s.addMany(t, "a", 3)
		l := s.log(t, &now)
		s.execute(t, "ALTER TABLE log_tiles RENAME TO gone") // it fails after the checkpoint is signed and inserted
		require.Error(t, l.Sign(t.Context()))
		s.execute(t, "ALTER TABLE gone RENAME TO log_tiles")
		require.Zero(t, s.published(t, l).N)
		now = now.Add(time.Minute)
		require.NoError(t, l.Sign(t.Context()))
		first := s.published(t, l)

		for size := int64(1); size <= 3; size++ {
			other := store.Checkpoint{Origin: logName, Size: size, Note: "other"}
			saved, err := s.SaveCheckpoint(t.Context(), other, nil, nil)
			require.NoError(t, err)
			require.False(t, saved, "another checkpoint of size %d", size)
		}
		require.Equal(t, first, s.published(t, l))
		require.True(t, s.verify(t).Fits)
	})
}

func TestNothingIsSignedBeforeTheCatalogHasSeenIt(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.addMany(t, "a", 3)
		l := s.log(t, new(recorded))
		s.execute(t, "UPDATE generations SET covered = 0")
		require.NoError(t, l.Sign(t.Context()))
		require.Zero(t, s.published(t, l).N)
		for _, covered := range []int64{2, 1} { // an older mark changes nothing
			require.NoError(t, s.Cover(t.Context(), covered))
			require.NoError(t, l.Sign(t.Context()))
			require.EqualValues(t, 2, s.published(t, l).N)
		}
		require.NoError(t, s.Cover(t.Context(), 3))
		require.NoError(t, l.Sign(t.Context()))
		require.EqualValues(t, 3, s.published(t, l).N)
	})
}

func TestReplicasSignOneLog(t *testing.T) {
	s := open(t, schema.Postgres(t))
	now := recorded
	s.addMany(t, "a", 300)
	done := make(chan error)
	for range 4 {
		go func() { done <- s.log(t, &now).Sign(t.Context()) }()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	report := s.verify(t)
	require.True(t, report.Fits, report.Findings)
	require.EqualValues(t, 300, report.Logged)
	require.Equal(t, 1, report.Checkpoints, "one of the replicas signs")
}
