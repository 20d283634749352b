package dbtx_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/authquotatest"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/journal"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
)

// lines is a journal in memory.
type lines struct {
	all     []journal.Line
	failing error
}

func (j *lines) Write(l journal.Line) error {
	if j.failing == nil {
		j.all = append(j.all, l)
	}
	return j.failing
}

// world is a database that can be restored, with its journal.
type world struct {
	authquotatest.DB
	*lines
	*people.Store

	t        *testing.T
	url      string
	clock    *servicetest.Clock
	keys     *keys.Store
	accounts *accountview.Store
	plan     *plan.Store
	notices  *notices.Store
	made     int // numbers what must be unique
}

func newWorld(t *testing.T, url string) *world {
	w := &world{t: t, url: url, clock: servicetest.NewClock(authquotatest.Start), lines: new(lines)}
	w.open()
	return w
}

func (w *world) open() {
	w.DB = authquotatest.Open(w.t, w.url, w.clock.Now)
	w.Clock, w.Journal = w.clock, w.lines
	w.Store = people.NewStore(w.DB.DB)
	w.keys, w.accounts, w.plan = keys.NewStore(w.DB.DB), accountview.NewStore(w.DB.DB, nil), plan.NewStore(w.DB.DB)
	w.notices = notices.NewStore(w.DB.DB, nil)
}

// backUp returns a function that restores the database.
func (w *world) backUp() (restore func()) {
	w.t.Helper()
	require.NoError(w.t, w.Close())
	replace := storetest.Backup(w.t, w.url)
	w.open()
	return func() {
		w.t.Helper()
		require.NoError(w.t, w.Close())
		replace()
		w.open()
	}
}

func (w *world) replay(of ...journal.Line) (changes int) {
	w.t.Helper()
	missing, err := w.Lacks(w.t.Context(), of)
	require.NoError(w.t, err)
	report, err := w.Replay(w.t.Context(), missing)
	require.NoError(w.t, err)
	return report.Changes
}

// compared are the columns that a replay restores, by table.
var compared = map[string]string{
	"accounts":          "SELECT * FROM accounts ORDER BY id",
	"people":            "SELECT * FROM people ORDER BY account_id",
	"api_keys":          "SELECT id, account_id, digest, life, expires_at, revoked_at, replaced_at, successor_id FROM api_keys ORDER BY id",
	"key_requests":      "SELECT * FROM key_requests ORDER BY id",
	"recovery_codes":    "SELECT * FROM recovery_codes ORDER BY hash",
	"passkeys":          "SELECT * FROM passkeys ORDER BY id",
	"feed_copies":       "SELECT * FROM feed_copies",
	"announcements":     "SELECT * FROM announcements ORDER BY id",
	"key_notices":       "SELECT * FROM key_notices ORDER BY key_id, days",
	"entitlements":      "SELECT account_id, holder_id, tier, paid_until, version, told_on FROM entitlements ORDER BY account_id",
	"terms_acceptances": "SELECT * FROM terms_acceptances ORDER BY account_id",
}

// ended has the tables whose rows a replay ends and never creates.
var ended = map[string]string{
	"sessions": "SELECT id AS key, account_id, token_hash, prev_hash, ended_at, agent FROM sessions",
	"links":    "SELECT token_hash AS key, used_at FROM links",
	"devices":  "SELECT token_hash AS key, account_id FROM devices",
}

func (w *world) rows(query string) (rows []map[string]any) {
	w.t.Helper()
	require.NoError(w.t, w.Raw(query).Scan(&rows).Error)
	return rows
}

// state returns what a replay must restore, by table, and the rows of ended, by table and key.
func (w *world) state() (all map[string]string, byKey map[string]map[string]string) {
	w.t.Helper()
	all, byKey = map[string]string{}, map[string]map[string]string{}
	for table, query := range compared {
		all[table] = strings.ReplaceAll(fmt.Sprint(w.rows(query)), "map[", "\n[")
	}
	for table, query := range ended {
		byKey[table] = map[string]string{}
		for _, row := range w.rows(query) {
			byKey[table][fmt.Sprint(row["key"])] = fmt.Sprint(row)
		}
	}
	return all, byKey
}

// requireRestored fails unless a replay restored the state.
func (w *world) requireRestored(all map[string]string, byKey map[string]map[string]string) {
	w.t.Helper()
	got, gotByKey := w.state()
	require.Equal(w.t, all, got)
	for table, rows := range gotByKey {
		for key, row := range rows {
			require.Equal(w.t, byKey[table][key], row, table)
		}
	}
}

// acts returns the actions in the audit log, without requests for mails: a mail that the database does not know has no effect.
func (w *world) acts() []string {
	return slices.DeleteFunc(w.Audit(w.t), func(action string) bool { return strings.HasSuffix(action, "_asked") })
}

// before has the acts before the backup that an act depends on, or changes the result of.
var before = map[string][]string{
	"resume": {"suspend"}, "decline": {"ask for key"}, "reset later": {"ask for reset"}, "close": {"ask for key", "ask for reset", "ask for address"},
	"keep authenticator": {"lose authenticator"}, "remove lost authenticator": {"lose authenticator"},
}

func TestReplayRepeatsEveryKindOfAct(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w, ctx := newWorld(t, url), t.Context()
		members := map[string]*member{}
		for name := range acts {
			m := w.join(strings.ReplaceAll(name, " ", "-") + "@example.org")
			members[name] = m
			for _, first := range before[name] {
				require.NoError(t, acts[first](ctx, w, m), first)
			}
		}
		restore := w.backUp()
		state, stateByKey := w.state()
		began := len(w.all)
		require.NoError(t, acts["reset later"](ctx, w, members["reset later"])) // others move the clock, and links expire
		for name, act := range acts {
			if name == "remove lost authenticator" || name == "reset later" {
				continue // the first moves the clock, and sessions end
			}
			n := len(w.all)
			require.NoError(t, act(ctx, w, members[name]), name)
			if !strings.HasPrefix(name, "ask for ") || name == "ask for key" { // a link has no effect until it is used
				require.Greater(t, len(w.all), n, "%s is not in the journal", name)
			}
		}
		require.NoError(t, acts["remove lost authenticator"](ctx, w, members["remove lost authenticator"]))
		all, byKey := w.state()
		audit := w.acts()

		restore()
		got, gotByKey := w.state()
		require.Equal(t, state, got)
		require.Equal(t, stateByKey, gotByKey)
		newest := w.all[len(w.all)-1]
		has, err := w.HasChange(ctx, highwater.Loss{Number: newest.Sequence, ID: newest.ID})
		require.NoError(t, err)
		require.False(t, has)

		require.Equal(t, len(w.all)-began, w.replay(w.all...))
		w.requireRestored(all, byKey)
		require.Equal(t, audit, w.acts())
		require.Contains(t, w.Raises(t), members["revoke"].Account)
		var replayed int64
		require.NoError(t, w.Raw("SELECT count(*) FROM audit_log WHERE detail LIKE '%replayedAt%'").Scan(&replayed).Error)
		require.Greater(t, replayed, int64(len(acts)))
		require.Zero(t, w.replay(w.all...), "again")
		require.Equal(t, audit, w.acts())

		_, err = w.keys.Revoke(ctx, "ann", members["suspend"].key.ID, false)
		require.NoError(t, err)
		require.Equal(t, newest.Sequence+1, w.all[len(w.all)-1].Sequence)
	})
}

// Any acts, a backup at any point: after the restore and the replay everything is as it was.
func TestReplayRestoresTheState(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
		t.Logf("seed %d", seed)
		w := newWorld(t, url)
		members := []*member{w.join("ada@example.org"), w.join("ben@example.org"), w.join("cyd@example.org")}
		names := []string{}
		for name := range acts {
			names = append(names, name)
		}
		var restore func()
		count := 10 + random.IntN(40)
		from, succeeded := random.IntN(count), 0
		for i := range count {
			if i == from {
				restore = w.backUp()
			}
			m := members[random.IntN(len(members))]
			if random.IntN(8) == 0 {
				m = w.join(fmt.Sprintf("p%d@example.org", w.made))
				members[random.IntN(len(members))] = m
			}
			name := names[random.IntN(len(names))]
			if err := acts[name](t.Context(), w, m); err == nil {
				succeeded++
			} else if !errors.Is(err, passkey.ErrRejected) {
				require.NotEqual(t, problem.InternalError, problem.Of(err).Code, "%s: %v", name, err)
			}
			w.Advance(time.Duration(random.IntN(120)) * time.Second)
		}
		all, byKey := w.state()
		restore()
		random.Shuffle(len(w.all), func(i, j int) { w.all[i], w.all[j] = w.all[j], w.all[i] })
		part := random.IntN(len(w.all))
		w.replay(append(w.all[part:], w.all...)...)
		w.requireRestored(all, byKey)
		require.Positive(t, succeeded)
	})
}

// A change can cover rows whose key is a number, and can have none of them.
func TestReplayDeletesRowsWithNumbersAsKeys(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		ada := w.join("ada@example.org")
		restore := w.backUp()
		require.NoError(t, acts["remind"](t.Context(), w, ada))
		var notified []string
		require.NoError(t, w.Raw("SELECT key_id FROM key_notices").Scan(&notified).Error)
		require.NotEmpty(t, notified)
		require.NoError(t, w.Change(t.Context(), func(tx *dbtx.Tx) error {
			tx.Changed("key_notices", "key_id", notified)
			return tx.Exec("DELETE FROM key_notices").Error
		}))
		restore()
		w.replay(w.all...)
		var left int64
		require.NoError(t, w.Raw("SELECT count(*) FROM key_notices").Scan(&left).Error)
		require.Zero(t, left)
	})
}

// A replica that lagged took over: the journal has changes from before and after.
func TestReplayKeepsChangesMadeAfterTheRestore(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w, ctx := newWorld(t, url), t.Context()
		ada, ben := w.join("ada@example.org"), w.join("ben@example.org")
		restore := w.backUp()
		require.NoError(t, acts["suspend"](ctx, w, ada))
		require.NoError(t, acts["resume"](ctx, w, ada))
		require.NoError(t, acts["revoke"](ctx, w, ben))
		before := w.all
		restore()
		require.NoError(t, acts["suspend"](ctx, w, ada))
		require.Equal(t, before[len(before)-3].Sequence, w.all[len(w.all)-1].Sequence, "used again")

		require.Equal(t, 3, w.replay(before...))
		var suspended, revoked int64
		require.NoError(t, w.Raw("SELECT suspended_at FROM accounts WHERE id = ?", ada.Account).Scan(&suspended).Error)
		require.NoError(t, w.Raw("SELECT revoked_at FROM api_keys WHERE id = ?", ben.key.ID).Scan(&revoked).Error)
		require.Positive(t, suspended, "after the resumption")
		require.Positive(t, revoked)
	})
}

func TestGapsStayOpen(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w, ctx := newWorld(t, url), t.Context()
		ada := w.join("ada@example.org")
		restore := w.backUp()
		for _, act := range []string{"suspend", "resume", "revoke"} {
			require.NoError(t, acts[act](ctx, w, ada))
		}
		lost := w.all[len(w.all)-2]
		restore()
		require.Equal(t, 2, w.replay(append(w.all[:len(w.all)-2:len(w.all)-2], w.all[len(w.all)-1])...))
		open, err := highwater.Losses(w.DB.WithContext(ctx)) //nolint:staticcheck // explicit
		require.NoError(t, err)
		require.Len(t, open, 1)
		require.Equal(t, lost.Sequence, open[0].Number)
		has, err := w.HasChange(ctx, open[0])
		require.NoError(t, err)
		require.False(t, has)

		require.Equal(t, 1, w.replay(lost), "late")
		has, err = w.HasChange(ctx, open[0])
		require.NoError(t, err)
		require.True(t, has)
		var revoked int64
		require.NoError(t, w.Raw("SELECT revoked_at FROM api_keys WHERE id = ?", ada.key.ID).Scan(&revoked).Error)
		require.Positive(t, revoked)
	})
}

func TestChangeIsAcknowledgedOnceItIsInTheJournal(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w, ctx := newWorld(t, url), t.Context()
		ada := w.join("ada@example.org")
		n := len(w.all)
		w.failing = errors.New("disk full")
		err := acts["revoke"](ctx, w, ada)
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		require.ErrorContains(t, err, "not in the journal yet")
		w.failing = nil
		require.NoError(t, w.DeliverChanges(ctx))
		require.Len(t, w.all, n, "other processes are writing newer lines")
		w.Advance(10 * time.Second)
		require.NoError(t, w.DeliverChanges(ctx))
		require.Len(t, w.all, n+1)
		require.Equal(t, "key.revoke", w.all[n].Acts[0].Action)
		require.NoError(t, w.DeliverChanges(ctx))
		require.Len(t, w.all, n+1)
	})
}

func TestJournalHasNoSecrets(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w, ctx := newWorld(t, url), t.Context()
		ada := w.join("ada@example.org")
		hash, err := w.PasswordHash(ctx, ada.Account)
		require.NoError(t, err)
		for name, act := range acts {
			if name != "close" {
				_ = act(ctx, w, ada)
			}
		}
		bytes := 0
		for _, l := range w.all {
			text, err := l.Encode()
			require.NoError(t, err)
			bytes += len(text)
			// Random ids and base64 may spell a secret by chance: the id is left out, and the sealed part compared as bytes.
			sealed, err := base64.RawURLEncoding.DecodeString(l.Sealed[strings.LastIndex(l.Sealed, ".")+1:])
			require.NoError(t, err)
			l.ID, l.Sealed = "", ""
			text, err = l.Encode()
			require.NoError(t, err)
			for _, secret := range []string{"ada@", hash, ada.key.LastFour, ada.passkey.Credential, people.HashSecret(ada.Session), "203.0.113"} {
				require.NotContains(t, string(text)+string(sealed), secret)
			}
		}
		t.Logf("%d lines, %d bytes each", len(w.all), bytes/len(w.all))
	})
}

func TestReplayNeedsTheEncryptionKey(t *testing.T) {
	authquotatest.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		w, ctx := newWorld(t, url), t.Context()
		ada := w.join("ada@example.org")
		restore := w.backUp()
		require.NoError(t, acts["suspend"](ctx, w, ada))
		restore()
		w.Box = authquotatest.Box(t, "a1")
		missing, err := w.Lacks(ctx, w.all)
		require.NoError(t, err)
		_, err = w.Replay(ctx, missing)
		require.ErrorContains(t, err, "OPPORTUNITY_ENCRYPTION_KEYS")
		w.Box = authquotatest.Box(t, "a1", "e7")
		require.Equal(t, 1, w.replay(w.all...))
	})
}
