package store_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

var seed, otherSeed = strings.Repeat("01", 32), strings.Repeat("02", 32)

func keys(t testing.TB, seeds ...string) checkpoint.Keys {
	t.Helper()
	k, err := checkpoint.ParseKeys(seeds, nil)
	require.NoError(t, err)
	return k
}

// sign makes a checkpoint of all events.
func (s testStore) sign(t testing.TB, k checkpoint.Keys) checkpoint.Stored {
	t.Helper()
	c, made, err := s.notary(k, recorded).Make(t.Context(), "")
	require.NoError(t, err)
	require.True(t, made)
	return c
}

func (s testStore) notary(k checkpoint.Keys, now time.Time) checkpoint.Notary {
	return checkpoint.Notary{Store: seen{s}, Keys: k, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
}

func (s testStore) audit(t testing.TB, k checkpoint.Keys, saved ...audit.Saved) (report audit.Report) {
	t.Helper()
	require.NoError(t, s.Audit(t.Context(), func(source audit.Source) (err error) {
		report, err = audit.Run(source, k, saved, nil)
		return err
	}))
	return report
}

// asSuperuser runs statements with all triggers disabled.
func (s testStore) asSuperuser(t testing.TB, statements ...string) {
	t.Helper()
	tables := []string{"verification_events", "checkpoints", "checkpoint_heads", "checkpoint_leaves", "log_tiles", "log_replies"}
	db := s.db.WithContext(t.Context())
	if s.db.Dialect == database.SQLite {
		var triggers []string
		require.NoError(t, db.Raw("SELECT name FROM sqlite_master WHERE type = 'trigger'").Scan(&triggers).Error)
		for _, name := range triggers {
			statements = append([]string{"DROP TRIGGER " + name}, statements...)
		}
	} else {
		for _, table := range tables {
			statements = append([]string{"ALTER TABLE " + table + " DISABLE TRIGGER ALL"}, statements...)
		}
	}
	s.execute(t, statements...)
}

// record returns the event with a sequence.
func (s testStore) record(t testing.TB, sequence int64) event.Record {
	t.Helper()
	records, err := s.Records(t.Context(), sequence-1, 1)
	require.NoError(t, err)
	require.Equal(t, sequence, records[0].Sequence)
	return records[0]
}

// put overwrites the event with the sequence of r, including its hashes.
func (s testStore) put(t testing.TB, r event.Record) {
	t.Helper()
	require.NoError(t, s.db.WithContext(t.Context()).Exec(`UPDATE verification_events SET id = ?, note = ?, content_hash = ?,
		prev_hash = ?, hash = ? WHERE sequence = ?`, r.ID, r.Note, r.ContentHash, r.PrevHash, r.Hash, r.Sequence).Error)
}

// resealed returns the record with another note and consistent hashes.
func resealed(t testing.TB, r event.Record, note, prev string) event.Record {
	t.Helper()
	e, err := r.Event()
	require.NoError(t, err)
	e.Note = note
	again, err := event.New(e)
	require.NoError(t, err)
	r.Note, r.ContentHash = note, again.ContentHash
	r.Seal(prev)
	return r
}

// rewrite changes the notes of a chain starting with its event number from, and keeps all hashes consistent.
func (s testStore) rewrite(t testing.TB, slug string, from int) {
	t.Helper()
	prev, n := "", 0
	for after := int64(0); ; {
		records, err := s.Records(t.Context(), after, 100)
		require.NoError(t, err)
		if len(records) == 0 {
			return
		}
		for _, r := range records {
			after = r.Sequence
			if r.Slug != slug {
				continue
			}
			if n++; n >= from {
				r = resealed(t, r, "rewritten", prev)
				s.put(t, r)
			}
			prev = r.Hash
		}
	}
}

// renumbered removes an event and renumbers the later ones, so that no sequence is missing.
func renumbered(sequence int) []string {
	return []string{
		fmt.Sprintf("DELETE FROM verification_events WHERE sequence = %d", sequence),
		fmt.Sprintf("UPDATE verification_events SET sequence = -sequence WHERE sequence > %d", sequence),
		"UPDATE verification_events SET sequence = -sequence - 1 WHERE sequence < 0",
		"UPDATE change_sequence SET value = value - 1",
	}
}

func swapped(a, b int) []string {
	return []string{
		fmt.Sprintf("UPDATE verification_events SET sequence = -1 WHERE sequence = %d", a),
		fmt.Sprintf("UPDATE verification_events SET sequence = %d WHERE sequence = %d", a, b),
		fmt.Sprintf("UPDATE verification_events SET sequence = %d WHERE sequence = -1", b),
	}
}

// fill appends five events to each of three listings in rotation: a has the sequences 1, 4, 7, 10, 13, then b and c follow. It makes a
// checkpoint after each number of events in checkpoints.
func fill(t testing.TB, s testStore, checkpoints ...int) {
	t.Helper()
	n := 0
	for i := range 5 {
		for _, slug := range []string{"a", "b", "c"} {
			s.add(t, review(slug, i, fmt.Sprint(i)))
			n++
			for _, at := range checkpoints {
				if at == n {
					s.sign(t, keys(t, seed))
				}
			}
		}
	}
}

// brief is a finding without its message and ID.
type brief struct {
	kind       audit.Kind
	sequence   int64
	slug       string
	checkpoint int64
}

func TestEveryTamperingIsReported(t *testing.T) {
	delete1 := func(sequence int) []string {
		return []string{fmt.Sprintf("DELETE FROM verification_events WHERE sequence = %d", sequence)}
	}
	for _, c := range []struct {
		name        string
		statements  []string
		further     func(t *testing.T, s testStore)
		checkpoints []int
		want        brief // the first finding
	}{
		// without checkpoints, chains and sequences prove the change
		{"edit", []string{"UPDATE verification_events SET note = 'x' WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"edit of facts", []string{"UPDATE verification_events SET facts = NULL WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"edit of the actor", []string{"UPDATE verification_events SET actor = 'x' WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"edit of the time", []string{"UPDATE verification_events SET recorded_at = 1 WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"edit of the hash", []string{"UPDATE verification_events SET hash = 'x' WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"edit of the content hash", []string{"UPDATE verification_events SET content_hash = 'x' WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"edit of the link", []string{"UPDATE verification_events SET prev_hash = 'x' WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "b", 0}},
		{"moved to another listing", []string{"UPDATE verification_events SET slug = 'a' WHERE sequence = 8"}, nil, nil, brief{audit.Event, 8, "a", 0}},
		{"edit of the last", []string{"UPDATE verification_events SET note = 'x' WHERE sequence = 15"}, nil, nil, brief{audit.Event, 15, "c", 0}},
		{"removed middle", delete1(8), nil, nil, brief{audit.Missing, 8, "", 0}},
		{"removed beginning", delete1(2), nil, nil, brief{audit.Missing, 2, "", 0}},
		{"removed middle, two in a row", append(delete1(8), delete1(9)...), nil, nil, brief{audit.Missing, 8, "", 0}},
		{"removed tail", delete1(14), nil, nil, brief{audit.Missing, 14, "", 0}},
		{"removed end of all", delete1(15), nil, nil, brief{audit.Missing, 15, "", 0}},
		{"removed chain", []string{"DELETE FROM verification_events WHERE slug = 'b'"}, nil, nil, brief{audit.Missing, 2, "", 0}},
		{"removed tail, and its summary", append(delete1(14), "DELETE FROM summaries WHERE slug = 'b'"), nil, nil, brief{audit.Missing, 14, "", 0}},
		{"removed middle, renumbered", renumbered(8), nil, nil, brief{audit.Event, 10, "b", 0}},
		{"reordered in a chain", swapped(5, 8), nil, nil, brief{audit.Event, 5, "b", 0}},
		{"edit resealed", nil, func(t *testing.T, s testStore) { s.put(t, resealed(t, s.record(t, 8), "x", s.record(t, 8).PrevHash)) }, nil,
			brief{audit.Event, 11, "b", 0}},
		{"summary", []string{"UPDATE summaries SET summary = replace(summary, '\"reviewCount\":5', '\"reviewCount\":6') WHERE slug = 'b'"}, nil, nil,
			brief{audit.Summarized, 0, "b", 0}},
		{"summary removed", []string{"DELETE FROM summaries WHERE slug = 'b'"}, nil, nil, brief{audit.Summarized, 0, "b", 0}},
		{"summary of nothing", []string{"INSERT INTO summaries VALUES ('d', 99, 1, '{}', 99)"}, nil, nil, brief{audit.Summarized, 0, "d", 0}},

		// with checkpoints, also changes that leave the events consistent
		{"edit, signed", []string{"UPDATE verification_events SET note = 'x' WHERE sequence = 8"}, nil, []int{6, 15}, brief{audit.Event, 8, "b", 2}},
		{"removed middle, signed", delete1(8), nil, []int{6, 15}, brief{audit.Missing, 8, "", 2}},
		{"removed tail, signed", append(delete1(14), "DELETE FROM summaries WHERE slug = 'b'"), nil, []int{6, 15}, brief{audit.Missing, 14, "", 2}},
		{"removed end of all, signed", append(delete1(15), "UPDATE change_sequence SET value = 14", "DELETE FROM summaries WHERE slug = 'c'"), nil, []int{6, 15},
			brief{audit.Missing, 15, "", 2}},
		{"removed chain, signed", []string{"DELETE FROM verification_events WHERE slug = 'b'", "DELETE FROM summaries WHERE slug = 'b'"}, nil, []int{6, 15},
			brief{audit.Missing, 2, "", 1}},
		{"removed middle, renumbered, signed", renumbered(8), nil, []int{6, 15}, brief{audit.Event, 8, "c", 2}},
		{"removed tail, renumbered, signed", renumbered(14), nil, []int{6, 15}, brief{audit.Event, 14, "c", 2}},
		{"reordered pair of two chains", swapped(7, 8), nil, []int{6, 15}, brief{audit.Event, 7, "b", 2}},
		{"reordered in a chain, signed", swapped(5, 8), nil, []int{6, 15}, brief{audit.Event, 5, "b", 1}},
		{"replaced chain", nil, func(t *testing.T, s testStore) { s.rewrite(t, "b", 1) }, []int{6, 15}, brief{audit.Event, 2, "b", 1}},
		{"replaced end of a chain", nil, func(t *testing.T, s testStore) { s.rewrite(t, "b", 4) }, []int{6, 15}, brief{audit.Event, 11, "b", 2}},
		{"edit of the last, resealed", nil, func(t *testing.T, s testStore) { s.rewrite(t, "c", 5) }, []int{6, 15}, brief{audit.Event, 15, "c", 2}},
		{"replaced chain, and the testStore leaves", []string{"DELETE FROM checkpoint_leaves WHERE first > 6"},
			func(t *testing.T, s testStore) { s.rewrite(t, "b", 4) }, []int{6, 15}, brief{audit.Event, 8, "b", 2}},
		{"replaced chain, leaves and heads", []string{"DELETE FROM checkpoint_leaves WHERE first > 6", "DELETE FROM checkpoint_heads WHERE checkpoint = 2"},
			func(t *testing.T, s testStore) { s.rewrite(t, "b", 4) }, []int{6, 15}, brief{audit.Event, 7, "", 2}},
		{"edited signature", []string{"UPDATE checkpoints SET note = replace(note, 'number 2', 'number 3') WHERE number = 2"}, nil, []int{6, 15},
			brief{audit.Checkpointed, 0, "", 2}},
		{"removed checkpoint", []string{"DELETE FROM checkpoint_heads WHERE checkpoint = 1", "DELETE FROM checkpoints WHERE number = 1"}, nil, []int{6, 15},
			brief{audit.Checkpointed, 0, "", 2}},
		{"removed newest checkpoint", []string{"DELETE FROM checkpoint_heads WHERE checkpoint = 2", "DELETE FROM checkpoints WHERE number = 2"}, nil, []int{6, 15},
			brief{audit.Checkpointed, 0, "", 0}},
		{"edited leaves", []string{"DELETE FROM checkpoint_leaves WHERE first > 6"}, nil, []int{6, 15}, brief{audit.Checkpointed, 0, "", 2}},
		{"edited heads", []string{"UPDATE checkpoint_heads SET events = 9 WHERE checkpoint = 2 AND slug = 'b'"}, nil, []int{6, 15},
			brief{audit.Checkpointed, 0, "", 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s testStore) {
				fill(t, s, c.checkpoints...)
				k := keys(t, seed)
				before := s.audit(t, k)
				require.True(t, before.Fits, "%+v", before.Findings)
				require.Equal(t, [4]int64{15, 3, int64(len(c.checkpoints)), before.Signed},
					[4]int64{before.Events, int64(before.Chains), int64(before.Checkpoints), before.Signed})
				s.asSuperuser(t, c.statements...)
				if c.further != nil {
					c.further(t, s)
				}
				after := s.audit(t, k)
				require.False(t, after.Fits)
				f := after.Findings[0]
				require.Equal(t, c.want, brief{f.Kind, f.Sequence, f.Slug, f.Checkpoint}, "%+v", after.Findings)
				if f.Kind == audit.Event && f.ID != "" {
					require.Equal(t, s.record(t, f.Sequence).ID, f.ID)
				}
			})
		})
	}
}

// An attacker with the database and the signing key can rewrite everything. A checkpoint saved elsewhere proves it.
func TestSavedCheckpointProvesThatHistoryWasResigned(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		fill(t, s, 6, 15)
		k := keys(t, seed)
		six, _, err := s.CheckpointNumber(t.Context(), 1)
		require.NoError(t, err)
		all, _, err := s.CheckpointNumber(t.Context(), 2)
		require.NoError(t, err)
		saved := []audit.Saved{{Name: "six.json", Note: six.Note}, {Name: "all.json", Note: all.Note}}
		before := s.audit(t, k, saved...)
		require.True(t, before.Fits, "%+v", before.Findings)

		s.asSuperuser(t, "DELETE FROM checkpoint_leaves", "DELETE FROM checkpoint_heads", "DELETE FROM checkpoints")
		s.rewrite(t, "b", 4)
		s.sign(t, k)
		require.True(t, s.audit(t, k).Fits)
		after := s.audit(t, k, saved...)
		require.False(t, after.Fits)
		f := after.Findings[0]
		require.Equal(t, brief{audit.Event, 7, "", 2}, brief{f.Kind, f.Sequence, f.Slug, f.Checkpoint}, "%+v", after.Findings)
		require.Contains(t, f.Message, "all.json")

		s.execute(t, "DELETE FROM checkpoint_leaves", "DELETE FROM checkpoint_heads", "DELETE FROM checkpoints",
			"DELETE FROM verification_events WHERE sequence > 12", "UPDATE change_sequence SET value = 12", "DELETE FROM summaries")
		after = s.audit(t, k, saved...)
		require.Contains(t, after.Findings[0].Message, "events 13 to 15 are missing")

		untrusted := s.audit(t, keys(t, otherSeed), saved[0])
		require.True(t, slices.ContainsFunc(untrusted.Findings, func(f audit.Finding) bool {
			return f.Message == "six.json: no key of this history signed it"
		}))
	})
}

func (s testStore) execute(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		require.NoError(t, s.db.WithContext(t.Context()).Exec(statement).Error, statement)
	}
}
