package store_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
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
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/cosignature"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

const logName = "api.example/opportunity-history"

// witness is a witness of another implementation: torchwood signs, and x/mod/sumdb/tlog verifies. It keeps the last checkpoint.
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
}

func newWitness(t *testing.T, k checkpoint.Keys) *witness {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("w", ed25519.SeedSize)))
	signer, err := torchwood.NewCosignatureSigner("witness.example", key)
	require.NoError(t, err)
	log, err := note.NewVerifier(k.PublicAs(logName)[0])
	require.NoError(t, err)
	w := &witness{t: t, signer: signer, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /w/add-checkpoint", w.add)
	mux.HandleFunc(fmt.Sprintf("GET /w/%x/checkpoint", sha256.Sum256([]byte(logName))), func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, w.note) })
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	w.setting = cosignature.PublicKey("witness.example", key.Public().(ed25519.PublicKey)) + " " + w.URL + "/w"
	return w
}

func (w *witness) add(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || w.down {
		out.WriteHeader(http.StatusServiceUnavailable)
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
		if strings.Contains(line, "— witness.example") {
			_, _ = io.WriteString(out, line)
		}
	}
}

// log returns the log of the store, whose witnesses have the settings.
func (s testStore) log(t *testing.T, now *time.Time, witnesses ...string) checkpoint.Log {
	t.Helper()
	l, err := checkpoint.Config{SigningKeys: []string{seed}, Witnesses: witnesses}.Log(s, "https://api.example")
	require.NoError(t, err)
	require.Equal(t, logName, l.Name)
	l.Now, l.Log = func() time.Time { return *now }, slog.New(slog.DiscardHandler)
	l.Store = seen{s}
	return l
}

// seen is a store whose events the catalog has seen, as soon as they are there.
type seen struct{ testStore }

// Covered implements checkpoint.Store.
func (seen) Covered(context.Context) (int64, error) { return math.MaxInt64, nil }

// addMany appends n events of one listing.
func (s testStore) addMany(t *testing.T, slug string, n int) {
	t.Helper()
	s.publish(t, slug)
	for i := range n {
		s.add(t, link(slug, i+1, api.OutcomeReachable))
	}
}

func (s testStore) published(t *testing.T, l checkpoint.Log) checkpoint.LogCheckpoint {
	t.Helper()
	origin, err := l.Origin(t.Context())
	require.NoError(t, err)
	c, err := l.Published(t.Context(), origin, 0)
	require.NoError(t, err)
	return c
}

// Another implementation verifies every proof and every tile, after each of several checkpoints.
func TestEveryEventIsProved(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		w := newWitness(t, keys(t, seed))
		l := s.log(t, &now, w.setting)
		verifier, err := note.NewVerifier(l.Keys.PublicAs(logName)[0])
		require.NoError(t, err)
		seen, err := torchwood.NewCosignatureVerifier(strings.Fields(w.setting)[0])
		require.NoError(t, err)
		policy := torchwood.ThresholdPolicy(3, torchwood.OriginPolicy(logName), torchwood.SingleVerifierPolicy(verifier), torchwood.SingleVerifierPolicy(seen))
		require.NoError(t, l.Sign(t.Context()))
		require.Zero(t, s.published(t, l).Size, "nothing to sign")
		total := 0
		for _, n := range []int{1, 2, 254, 3} { // a full tile, and more
			s.addMany(t, fmt.Sprintf("platform-%d", n), n)
			total += n
			require.NoError(t, l.Sign(t.Context()))
			require.NoError(t, l.Sign(t.Context()), "nothing happened")
			require.NoError(t, l.Cosign(t.Context()))
			c := s.published(t, l)
			require.EqualValues(t, total, c.Size)
			records, err := s.Records(t.Context(), 0, 1000)
			require.NoError(t, err)
			for _, r := range records {
				proof, err := l.Prove(t.Context(), c, r)
				require.NoError(t, err)
				require.NoError(t, torchwood.VerifyProof(policy, tlog.RecordHash(r.Leaf()), []byte(proof)))
				require.Less(t, len(proof), 1500)
			}
		}
		_, err = s.Tiles(t.Context(), []tlog.Tile{{H: 8, L: 0, N: 1, W: 256}})
		require.ErrorIs(t, err, checkpoint.ErrNoTile, "a partial tile is not a full one")
		report := s.audit(t, l.Keys)
		require.True(t, report.Fits, report.Findings)
		require.EqualValues(t, total, report.Logged)
	})
}

// Events that a release without the log recorded stay valid, and the log covers them; only those of this release have proofs.
func TestEventsOfBeforeTheLogStayValid(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		l := s.log(t, &now)
		old, err := event.New(apitest.Verified("a", day0))
		require.NoError(t, err)
		old.Sequence, old.ID, old.Actor, old.RecordedAt = 1, "0198f000-0000-7000-8000-000000000001", "ada", day0.UnixMicro()
		old.Seal("")
		require.NoError(t, s.InsertRecord(t.Context(), old))
		s.asSuperuser(t, "UPDATE change_sequence SET value = 1")
		s.sign(t, l.Keys)
		s.addMany(t, "a", 1)
		s.sign(t, l.Keys)
		require.NoError(t, l.Sign(t.Context()))
		report := s.audit(t, l.Keys)
		require.True(t, report.Fits, report.Findings)
		require.EqualValues(t, 2, report.Logged)
		c := s.published(t, l)
		_, err = l.Prove(t.Context(), c, old)
		require.ErrorIs(t, err, checkpoint.ErrForm)
		records, err := s.Records(t.Context(), 1, 1)
		require.NoError(t, err)
		_, err = l.Prove(t.Context(), c, records[0])
		require.NoError(t, err)
	})
}

func TestStoredLogOnlyGrows(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		s.addMany(t, "a", 3)
		require.NoError(t, s.log(t, &now).Sign(t.Context()))
		for _, statement := range []string{
			"UPDATE log_tiles SET hashes = substr(hashes, 2)", "DELETE FROM log_tiles", "UPDATE log_checkpoints SET size = 9", "DELETE FROM log_checkpoints",
		} {
			require.Error(t, s.db.WithContext(t.Context()).Exec(statement).Error, statement)
		}
	})
}

func TestAuditComparesEventsAndTilesWithTheLog(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		s.addMany(t, "a", 2)
		s.sign(t, keys(t, seed))
		s.addMany(t, "b", 2) // only the log covers them
		l := s.log(t, &now)
		require.NoError(t, l.Sign(t.Context()))
		s.asSuperuser(t, "UPDATE log_tiles SET hashes = substr(hashes, 33)")
		report := s.audit(t, l.Keys)
		require.Len(t, report.Findings, 1)
		require.Contains(t, report.Findings[0].Message, "tiles of the log")

		s.asSuperuser(t, "DELETE FROM verification_events WHERE sequence = 4", "UPDATE change_sequence SET value = 3")
		report = s.audit(t, l.Keys)
		require.Contains(t, fmt.Sprint(report.Findings), "events 4 to 4 are missing")
	})
}

// A witness that cannot be reached delays a checkpoint by half a minute.
func TestWitnessThatIsDownDelaysNothingForLong(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		now := recorded
		w := newWitness(t, keys(t, seed))
		l := s.log(t, &now, w.setting)
		s.addMany(t, "a", 2)
		require.NoError(t, l.Sign(t.Context()))
		w.down = true
		require.ErrorContains(t, l.Cosign(t.Context()), "witness.example: unexpected status 503")
		require.Zero(t, s.published(t, l).Size)
		now = now.Add(31 * time.Second)
		require.EqualValues(t, 2, s.published(t, l).Size)
		require.Empty(t, s.published(t, l).Cosignatures)
		w.down = false
		require.NoError(t, l.Cosign(t.Context()))
		require.Len(t, s.published(t, l).Cosignatures, 1)

		// The reply of the witness is lost: the log learns from the next one what it has seen.
		s.addMany(t, "b", 2)
		require.NoError(t, l.Sign(t.Context()))
		other := s.log(t, &now, w.setting)
		require.NoError(t, other.Cosign(t.Context()))
		s.asSuperuser(t, "DELETE FROM log_replies")
		require.NoError(t, l.Cosign(t.Context()))
		require.EqualValues(t, 4, s.published(t, l).Size)
	})
}

// A log that was set back and continued is rejected.
func TestNothingIsPublishedBesideWhatAWitnessHasSeen(t *testing.T) {
	for name, continued := range map[string]int{"below": 1, "beside": 5} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s testStore) {
				now := recorded
				w := newWitness(t, keys(t, seed))
				before := open(t, schema.SQLite(t))
				before.addMany(t, "a", 3)
				require.NoError(t, before.log(t, &now).Sign(t.Context()))
				require.NoError(t, before.log(t, &now, w.setting).Cosign(t.Context()))

				restored := s.log(t, &now, w.setting)
				s.addMany(t, "a", continued)
				require.NoError(t, restored.Sign(t.Context()))
				err := restored.Cosign(t.Context())
				require.ErrorContains(t, err, "the witness rejected the checkpoint")
				now = now.Add(time.Hour)
				require.Zero(t, s.published(t, restored).Size)
			})
		})
	}
}

// A key that leaked signs another history. Readers without a witness cannot tell it from the true one; the witness rejects it.
func TestForkWithTheStolenKeyIsRejected(t *testing.T) {
	s, fork := open(t, schema.SQLite(t)), open(t, schema.SQLite(t))
	now := recorded
	w := newWitness(t, keys(t, seed))
	s.addMany(t, "a", 2)
	l := s.log(t, &now, w.setting)
	require.NoError(t, l.Sign(t.Context()))
	require.NoError(t, l.Cosign(t.Context()))
	fork.addMany(t, "b", 2)
	forked := fork.log(t, &now)
	require.NoError(t, forked.Sign(t.Context()))
	c := fork.published(t, forked)
	_, err := l.Keys.Verified(c)
	require.NoError(t, err, "the signature is valid")
	forked.Witnesses, forked.Threshold = l.Witnesses, 1
	require.ErrorContains(t, forked.Cosign(t.Context()), "rejected")
	require.Zero(t, fork.published(t, forked).Size)
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
	key := strings.Fields(newWitness(t, keys(t, seed)).setting)[0]
	l := s.log(t, &now, key+" "+server.URL)
	require.NoError(t, l.Sign(t.Context()))
	for _, test := range []struct {
		status             int
		contentType, reply string
	}{
		{200, "", ""}, {200, "", "— witness.example " + base64.StdEncoding.EncodeToString(make([]byte, 76)) + "\n"}, {200, "", "<html>"},
		{409, "text/html", "1\n"}, {409, "text/x.tlog.size", "-1\n"}, {409, "text/x.tlog.size", "x"}, {409, "text/x.tlog.size", "0\n"},
		{404, "", ""}, {403, "", ""}, {302, "", ""}, {200, "", strings.Repeat("x", 70_000)},
	} {
		status, contentType, reply = test.status, test.contentType, test.reply
		require.Error(t, l.Cosign(t.Context()), test)
	}
	replies, err := s.Replies(t.Context(), logName, 1)
	require.NoError(t, err)
	require.Empty(t, replies)
	for _, setting := range []string{"", key, key + " ftp://w.example", key + " https://u:p@w.example", "x https://w.example", key + " https://w.example?x"} {
		_, err := checkpoint.ParseWitness(setting)
		require.Error(t, err, setting)
	}
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
	report := s.audit(t, keys(t, seed))
	require.True(t, report.Fits, report.Findings)
	require.EqualValues(t, 300, report.Logged)
}
