package store_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/store"
	"opportunity.internal/services/history/internal/verify"
)

var seed, otherSeed = strings.Repeat("01", 32), strings.Repeat("02", 32)

func keys(t testing.TB, seeds ...string) checkpoint.Keys {
	t.Helper()
	k, err := checkpoint.Config{SigningKeys: seeds}.Keys()
	require.NoError(t, err)
	return k
}

// sign signs a checkpoint of all events.
func (s testStore) sign(t testing.TB) checkpoint.Checkpoint {
	t.Helper()
	l := s.log(t, new(recorded))
	require.NoError(t, l.Sign(t.Context()))
	return s.published(t, l)
}

func (s testStore) verify(t testing.TB, saved ...verify.Saved) verify.Report {
	t.Helper()
	return s.verifyWith(t, keys(t, seed), saved...)
}

func (s testStore) verifyWith(t testing.TB, k checkpoint.Keys, saved ...verify.Saved) (report verify.Report) {
	t.Helper()
	require.NoError(t, s.Snapshot(t.Context(), func(snapshot *store.Store) (err error) {
		report, err = verify.Run(t.Context(), snapshot, k, saved, nil)
		return err
	}))
	return report
}

// asSuperuser runs statements with all triggers disabled.
func (s testStore) asSuperuser(t testing.TB, statements ...string) {
	t.Helper()
	db := s.db.WithContext(t.Context())
	if s.db.Dialect == database.SQLite {
		var triggers []string
		require.NoError(t, db.Raw("SELECT name FROM sqlite_master WHERE type = 'trigger'").Scan(&triggers).Error)
		for _, name := range triggers {
			statements = append([]string{"DROP TRIGGER " + name}, statements...)
		}
	} else {
		for _, table := range []string{"verification_events", "log_tiles", "log_checkpoints", "log_cosignatures"} {
			statements = append([]string{"ALTER TABLE " + table + " DISABLE TRIGGER ALL"}, statements...)
		}
	}
	s.execute(t, statements...)
}

func (s testStore) execute(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		require.NoError(t, s.db.WithContext(t.Context()).Exec(statement).Error, statement)
	}
}

// record returns the event with a sequence.
func (s testStore) record(t testing.TB, sequence int64) event.Record {
	t.Helper()
	records, err := s.Records(t.Context(), sequence-1, 1)
	require.NoError(t, err)
	require.Equal(t, sequence, records[0].Sequence)
	return records[0]
}

// rewrite changes the note of an event, and keeps the hash of its content consistent.
func (s testStore) rewrite(t testing.TB, sequences ...int64) {
	t.Helper()
	for _, sequence := range sequences {
		r := s.record(t, sequence)
		e, err := r.Event()
		require.NoError(t, err)
		e.Note = "rewritten"
		again, err := event.New(e)
		require.NoError(t, err)
		require.NoError(t, s.db.WithContext(t.Context()).
			Exec("UPDATE verification_events SET note = ?, content_hash = ? WHERE sequence = ?",
				e.Note, again.ContentHash, sequence).Error)
	}
}

// replaceTile replaces the leaf of an event in its tile.
func (s testStore) replaceTile(t testing.TB, sequence int64) {
	t.Helper()
	tiles, err := s.ReadTiles(t.Context(), []tlog.Tile{{H: torchwood.TileHeight, W: 15}})
	require.NoError(t, err)
	r := s.record(t, sequence)
	leaf := tlog.RecordHash(append(r.Leaf(), ' '))
	if r.Note == "rewritten" {
		leaf = tlog.RecordHash(r.Leaf())
	}
	copy(tiles[0][(sequence-1)*tlog.HashSize:], leaf[:])
	require.NoError(t, s.db.WithContext(t.Context()).Exec("UPDATE log_tiles SET hashes = ? WHERE level = 0 AND number = 0",
		tiles[0]).Error)
}

// resign replaces a stored checkpoint by one with another root.
func (s testStore) resign(t testing.TB, size int64, signer checkpoint.Keys) {
	t.Helper()
	c := torchwood.Checkpoint{Origin: logName, Tree: tlog.Tree{N: size, Hash: tlog.RecordHash([]byte("other"))}}
	note, err := signer.Sign(c)
	require.NoError(t, err)
	require.NoError(t, s.db.WithContext(t.Context()).Exec("UPDATE log_checkpoints SET note = ? WHERE size = ?", note,
		size).Error)
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

// fill appends five events to each of three listings in rotation: a has the sequences 1, 4, 7, 10,
// 13, then b and c follow. It signs a checkpoint after each number of events in checkpoints.
func fill(t testing.TB, s testStore, checkpoints ...int) {
	t.Helper()
	n := 0
	for i := range 5 {
		for _, slug := range []string{"a", "b", "c"} {
			s.add(t, review(slug, i, fmt.Sprint(i)))
			n++
			if slices.Contains(checkpoints, n) {
				s.sign(t)
			}
		}
	}
}

// brief is a finding without its message and ID.
type brief struct {
	kind     verify.Kind
	sequence int64
	slug     string
}

// tampering is a change of the database, first by statements, and the first finding that reports
// it.
type tampering struct {
	name       string
	statements []string
	further    func(t *testing.T, s testStore)
	want       brief
}

// reported requires that each change of a history that fits is reported.
func reported(t *testing.T, changes []tampering) {
	t.Helper()
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s testStore) {
				fill(t, s, 6, 15)
				before := s.verify(t)
				require.True(t, before.Fits, "%+v", before.Findings)
				require.Equal(t, verify.Report{Fits: true, Events: 15, Listings: 3, Checkpoints: 2, Logged: 15,
					Findings: []verify.Finding{}}, before)
				s.asSuperuser(t, c.statements...)
				if c.further != nil {
					c.further(t, s)
				}
				after := s.verify(t)
				require.False(t, after.Fits)
				f := after.Findings[0]
				require.Equal(t, c.want, brief{f.Kind, f.Sequence, f.Slug}, "%+v", after.Findings)
				var text strings.Builder
				require.NoError(t, after.Print(&text))
				require.Contains(t, text.String(), f.Message)
				if f.Kind == verify.Event && f.Sequence > 0 && f.ID != "" {
					require.Equal(t, s.record(t, f.Sequence).ID, f.ID)
				}
			})
		})
	}
}

func TestChangedEventIsReported(t *testing.T) {
	set := func(change string) []string {
		return []string{"UPDATE verification_events SET " + change + " WHERE sequence = 8"}
	}
	edited := brief{verify.Event, 8, "b"}
	reported(t, []tampering{
		{"note", set("note = 'x'"), nil, edited},
		{"facts removed", set("facts = NULL"), nil, edited},
		{"facts not JSON", set("facts = '{'"), nil, edited},
		{"facts changed", set("facts = replace(facts, 'true', 'false')"), nil, edited},
		{"sources removed", set("source_urls = '[]'"), nil, edited},
		{"time of the check", set("checked_at = checked_at + 1"), nil, edited},
		{"kind of the check", set("check_type = 'application-link'"), nil, edited},
		{"outcome", set("outcome = 'needs-review'"), nil, edited},
		{"id", set("id = 'x'"), nil, edited},
		{"actor", set("actor = 'x'"), nil, edited},
		{"actor, also in the private part", set("actor = 'x', evidence = replace(evidence, 'ada', 'x')"), nil, edited},
		{"time of recording", set("recorded_at = recorded_at + 1"), nil, edited},
		{"evidence", set(`evidence = replace(evidence, '"salt":"', '"gone":["https://x.example"],"salt":"')`), nil,
			edited},
		{"evidence removed", set("evidence = ''"), nil, edited},
		{"moved to another listing", set("slug = 'a'"), nil, brief{verify.Event, 8, "a"}},
		{"note, with its hash", nil, func(t *testing.T, s testStore) { s.rewrite(t, 8) }, edited},
		{"first event", nil, func(t *testing.T, s testStore) { s.rewrite(t, 1) }, brief{verify.Event, 1, "a"}},
		{"last event", nil, func(t *testing.T, s testStore) { s.rewrite(t, 15) }, brief{verify.Event, 15, "c"}},
		{"whole listing", nil, func(t *testing.T, s testStore) { s.rewrite(t, 2, 5, 8, 11, 14) },
			brief{verify.Event, 2, "b"}},
		{"end of a listing", nil, func(t *testing.T, s testStore) { s.rewrite(t, 11, 14) },
			brief{verify.Event, 11, "b"}},
		{"event inserted before the first", []string{
			`INSERT INTO verification_events (sequence, id, slug, checked_at, check_type, outcome, source_urls, facts, note,
				actor, recorded_at, content_hash, evidence)
			SELECT 0, 'x', slug, checked_at, check_type, outcome, source_urls, facts, note, actor, recorded_at,
				'x', evidence FROM verification_events WHERE sequence = 8`,
		}, nil, brief{verify.Event, 0, "b"}},
		{"event inserted far behind", []string{
			`INSERT INTO verification_events (sequence, id, slug, checked_at, check_type, outcome, source_urls, facts, note,
				actor, recorded_at, content_hash, evidence)
			SELECT 1000000000000000000, 'x', slug, checked_at, check_type, outcome, source_urls, facts, note, actor, recorded_at,
				'x', evidence FROM verification_events WHERE sequence = 8`,
		}, nil, brief{verify.Missing, 16, ""}},
	})
}

// remove returns a statement that deletes events.
func remove(sequences string) []string {
	return []string{"DELETE FROM verification_events WHERE sequence IN (" + sequences + ")"}
}

func TestRemovedOrReorderedEventIsReported(t *testing.T) {
	reported(t, []tampering{
		{"removed from the middle", remove("8"), nil, brief{verify.Missing, 8, ""}},
		{"removed from the beginning", remove("1"), nil, brief{verify.Missing, 1, ""}},
		{"removed two in a row", remove("8, 9"), nil, brief{verify.Missing, 8, ""}},
		{"removed last of a listing", remove("14"), nil, brief{verify.Missing, 14, ""}},
		{"removed last of a listing, with its summary", append(remove("14"), "DELETE FROM summaries WHERE slug = 'b'"),
			nil, brief{verify.Missing, 14, ""}},
		{"removed last", remove("15"), nil, brief{verify.Missing, 15, ""}},
		{"removed last, with its sequence", append(remove("15"), "UPDATE change_sequence SET value = 14",
			"DELETE FROM summaries WHERE slug = 'c'"), nil,
			brief{verify.Missing, 15, ""}},
		{"removed listing", []string{"DELETE FROM verification_events WHERE slug = 'b'"}, nil,
			brief{verify.Missing, 2, ""}},
		{"removed listing, with its summary", []string{"DELETE FROM verification_events WHERE slug = 'b'",
			"DELETE FROM summaries WHERE slug = 'b'"}, nil,
			brief{verify.Missing, 2, ""}},
		{"removed all", []string{"DELETE FROM verification_events", "DELETE FROM summaries",
			"UPDATE change_sequence SET value = 0"}, nil, brief{verify.Missing, 1, ""}},
		{"removed and renumbered", renumbered(8), nil, brief{verify.Event, 8, "c"}},
		{"removed tail and renumbered", renumbered(14), nil, brief{verify.Event, 14, "c"}},
		{"reordered", swapped(7, 8), nil, brief{verify.Event, 7, "b"}},
		{"reordered in a listing", swapped(5, 8), nil, brief{verify.Event, 5, "b"}},
	})
}

func TestChangedSummaryIsReported(t *testing.T) {
	reported(t, []tampering{
		{"summary", []string{"UPDATE summaries SET summary = replace(summary, '\"reviewCount\":5', '\"reviewCount\":6') " +
			"WHERE slug = 'b'"}, nil,
			brief{verify.Summarized, 0, "b"}},
		{"summary removed", []string{"DELETE FROM summaries WHERE slug = 'b'"}, nil, brief{verify.Summarized, 0, "b"}},
		{"summary of nothing", []string{"INSERT INTO summaries VALUES ('d', 99, 1, '{}', '', '', '')"}, nil,
			brief{verify.Summarized, 0, "d"}},
	})
}

func TestChangedLogIsReported(t *testing.T) {
	log := brief{verify.Checkpointed, 0, ""}
	reported(t, []tampering{
		{"signature of the newest checkpoint",
			[]string{"UPDATE log_checkpoints SET note = replace(note, 'api.', 'apj.') WHERE size = 15"}, nil, log},
		{"signature of an older checkpoint",
			[]string{"UPDATE log_checkpoints SET note = replace(note, 'api.', 'apj.') WHERE size = 6"}, nil, log},
		{"size of a checkpoint", []string{"UPDATE log_checkpoints SET size = 14 WHERE size = 15"}, nil, log},
		{"origin of a checkpoint", []string{"UPDATE log_checkpoints SET origin = 'x' WHERE size = 6"}, nil, log},
		{"newest checkpoint removed", []string{"DELETE FROM log_checkpoints WHERE size = 15"}, nil, log},
		{"all checkpoints removed", []string{"DELETE FROM log_checkpoints"}, nil, log},
		{"checkpoint signed with another key", nil,
			func(t *testing.T, s testStore) { s.resign(t, 6, keys(t, otherSeed)) }, log},
		{"older checkpoint of another history", nil, func(t *testing.T, s testStore) { s.resign(t, 6, keys(t, seed)) },
			log},
		{"tile cut", []string{"UPDATE log_tiles SET hashes = substr(hashes, 33)"}, nil, log},
		{"tile removed", []string{"DELETE FROM log_tiles"}, nil, log},
		{"tile changed", nil, func(t *testing.T, s testStore) { s.replaceTile(t, 8) }, log},
		{"event and tile changed together", nil, func(t *testing.T, s testStore) {
			s.rewrite(t, 8)
			s.replaceTile(t, 8)
		}, brief{verify.Event, 7, ""}},
		{"event changed and tile removed", []string{"DELETE FROM log_tiles"},
			func(t *testing.T, s testStore) { s.rewrite(t, 3) }, brief{verify.Event, 1, ""}},
		{"event removed with the tile", append(remove("8"), "DELETE FROM log_tiles"), nil, brief{verify.Missing, 8, ""}},
	})
}

// Of events that no checkpoint covers yet, only a contradiction or a gap is noticed. Sign rejects
// events that do not continue the log.
func TestTamperingBeforeTheNextCheckpointIsReportedAndNotSigned(t *testing.T) {
	for statement, want := range map[string]brief{
		"UPDATE verification_events SET note = 'x' WHERE sequence = 8":    {verify.Event, 8, "b"},
		"UPDATE verification_events SET actor = 'x' WHERE sequence = 8":   {verify.Event, 8, "b"},
		"DELETE FROM verification_events WHERE sequence = 7":              {verify.Missing, 7, ""},
		"DELETE FROM verification_events WHERE sequence = 8":              {verify.Missing, 8, ""},
		"DELETE FROM verification_events WHERE sequence = 15":             {verify.Missing, 15, ""},
		"UPDATE log_tiles SET hashes = substr(hashes, 33)":                {verify.Checkpointed, 0, ""},
		"UPDATE log_checkpoints SET note = replace(note, 'api.', 'apj.')": {verify.Checkpointed, 0, ""},
	} {
		t.Run(statement, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s testStore) {
				fill(t, s, 6)
				require.True(t, s.verify(t).Fits)
				s.asSuperuser(t, statement)
				f := s.verify(t).Findings[0]
				require.Equal(t, want, brief{f.Kind, f.Sequence, f.Slug})
				l := s.log(t, new(recorded))
				for range 2 { // the end of the events does not show that there were more
					require.Equal(t, want.sequence == 15, l.Sign(t.Context()) == nil)
				}
				if want.sequence == 15 {
					return
				}
				c, err := s.NewestCheckpoint(t.Context(), "", math.MaxInt64)
				require.NoError(t, err)
				require.EqualValues(t, 6, c.Size)
			})
		})
	}
}

// An attacker with the database and the signing key can rewrite everything. A checkpoint saved
// elsewhere proves it.
func TestSavedCheckpointProvesThatHistoryWasResigned(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		fill(t, s, 6)
		six := s.sign(t) // of all 15
		l := s.log(t, new(recorded))
		first, err := l.Published(t.Context(), logName, 6)
		require.NoError(t, err)
		saved := []verify.Saved{{Name: "six.txt", Note: first.Note}, {Name: "all.txt", Note: six.Note}}
		before := s.verify(t, saved...)
		require.True(t, before.Fits, "%+v", before.Findings)

		forget := []string{"DELETE FROM log_tiles", "DELETE FROM log_checkpoints"}
		s.asSuperuser(t, forget...)
		s.rewrite(t, 11, 14)
		s.sign(t)
		require.True(t, s.verify(t).Fits)
		after := s.verify(t, saved...)
		require.Len(t, after.Findings, 1)
		f := after.Findings[0]
		require.Equal(t, brief{verify.Event, 7, ""}, brief{f.Kind, f.Sequence, f.Slug}, "%+v", after.Findings)
		require.Contains(t, f.Message, "all.txt")

		s.execute(t, append(forget, "DELETE FROM verification_events WHERE sequence > 12",
			"UPDATE change_sequence SET value = 12", "DELETE FROM summaries")...)
		after = s.verify(t, saved...)
		require.Contains(t, after.Findings[0].Message, "events 13 to 15 are missing")

		untrusted := s.verifyWith(t, keys(t, otherSeed), saved[0])
		require.True(t, slices.ContainsFunc(untrusted.Findings, func(f verify.Finding) bool {
			return f.Message == "six.txt: no key of this history signed it"
		}))
	})
}

// A tile that does not match hides nothing of the events in other tiles, and none of those that are
// intact.
func TestEventsOfOtherTilesAreNamed(t *testing.T) {
	s := open(t, schema.SQLite(t))
	s.addMany(t, "a", 700)
	s.sign(t)
	s.asSuperuser(t, "UPDATE log_tiles SET hashes = substr(hashes, 33) WHERE level = 0 AND number = 1")
	s.rewrite(t, 100, 600)
	report := s.verify(t)
	require.Len(t, report.Findings, 3)
	require.EqualValues(t, 100, report.Findings[0].Sequence)
	require.EqualValues(t, 600, report.Findings[1].Sequence)
	require.Contains(t, fmt.Sprint(report.Findings), "the stored tiles of the events 257 to 512 do not match")
}

// Appends do not wait for a running verification and do not affect it.
func TestAppendsContinueDuringVerification(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		fill(t, s, 6, 15)
		require.NoError(t, s.Snapshot(t.Context(), func(snapshot *store.Store) error {
			_, err := snapshot.LastSequence(t.Context()) // takes the snapshot
			require.NoError(t, err)
			s.add(t, review("a", 9, "meanwhile"))
			s.sign(t)
			report, err := verify.Run(t.Context(), snapshot, keys(t, seed), nil, nil)
			require.True(t, report.Fits, "%+v", report.Findings)
			require.EqualValues(t, 15, report.Events)
			return err
		}))
		require.EqualValues(t, 16, s.verify(t).Events)
	})
}

// An outage is no finding.
func TestUnreadableTilesFailTheVerification(t *testing.T) {
	s := open(t, schema.SQLite(t))
	fill(t, s, 15)
	first := true
	require.NoError(t, s.db.Callback().Query().Before("*").Register("outage", func(tx *gorm.DB) {
		if tx.Statement.Table == "log_tiles" && first {
			first = false
			_ = tx.AddError(errors.New("connection lost"))
		}
	}))
	require.ErrorContains(t, s.Snapshot(t.Context(), func(snapshot *store.Store) error {
		_, err := verify.Run(t.Context(), snapshot, keys(t, seed), nil, nil)
		return err
	}), "connection lost")
}
