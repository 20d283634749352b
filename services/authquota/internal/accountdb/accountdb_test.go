package accountdb_test

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
)

// A change that fails leaves no audit entry, no mail and no epoch increment.
func TestChangeIsAllOrNothing(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		failure := errors.New("failed at the end")
		change := func(outcome error) error {
			return db.Change(t.Context(), func(tx *accountdb.Tx) error {
				a := storetest.Must(account.Create(tx, api.BaseTier))(t)
				return errors.Join(
					tx.Record("ada", "account.create", a.ID, nil),
					tx.Post(mail.Message{To: "ada@example.org", Template: "password-changed"}), outcome)
			})
		}
		require.ErrorIs(t, change(failure), failure)
		require.Empty(t, db.Audit(t))
		require.Empty(t, db.TakeTouched(t))
		require.Empty(t, db.TakeMails(t))
		require.NoError(t, change(nil))
		require.Equal(t, []string{"account.create"}, db.Audit(t))
		require.Len(t, db.TakeTouched(t), 1)
		require.Len(t, db.TakeMails(t), 1)
	})
}

// Setting the clock back must not restore an epoch that a gateway may still have cached.
func TestEpochsIncreaseWhenTheClockIsSetBack(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		id, _ := db.Person(t, "ada@example.org")
		ahead := db.Now().Add(time.Hour).UnixMicro()
		require.NoError(t, db.Exec("UPDATE accounts SET epoch = ?", ahead).Error)
		require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error { return tx.Touch(id) }))
		require.Greater(t, storetest.Must(db.Epochs(t.Context(), "a.id = ?", id))(t)[0].Number, ahead)
	})
}

// post posts mails about different things.
func post(t *testing.T, db testkit.DB, mails int) {
	t.Helper()
	for left := range mails {
		postOne(t, db, "ada@example.org", "recovery-code-used", "left", strconv.Itoa(left))
	}
}

func postOne(t *testing.T, db testkit.DB, to, template, name, value string) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error {
		return tx.Post(mail.Message{To: to, Template: template, Data: map[string]string{name: value}})
	}))
}

func TestMailsTakeTurnsAndLinksToSignInGoFirst(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		post(t, db, 40)
		db.Advance(2 * time.Second)
		postOne(t, db, "eve@example.org", "recovery-code-used", "left", "1")
		postOne(t, db, "new@example.org", "confirm-address", "link", "https://api.example/1")
		var order []string
		for _, m := range db.TakeMails(t)[:5] {
			order = append(order, m.To)
		}
		require.Equal(t, []string{"new@example.org", "ada@example.org", "ada@example.org", "ada@example.org",
			"eve@example.org"}, order)
	})
}

func TestMailsAboutOneThingAreMergedUntilSent(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		reset := func(to, link string) { postOne(t, db, to, "reset-password", "link", "https://api.example/"+link) }
		reset("ada@example.org", "first")
		sending, _, err := db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		reset("eve@example.org", "hers")
		for _, link := range []string{"second", "last"} {
			reset("ada@example.org", link)
		}
		postOne(t, db, "ada@example.org", "factor-changed", "what", "one")
		postOne(t, db, "ada@example.org", "factor-changed", "what", "another")
		require.NoError(t, db.DeferMail(t.Context(), sending.ID, db.Now())) // the courier of the first failed meanwhile
		require.NoError(t, db.DeleteMail(t.Context(), sending.ID))
		var got string
		for _, m := range db.TakeMails(t) {
			got += m.To + m.Text
		}
		require.NotContains(t, got, "/first")
		require.NotContains(t, got, "/second")
		for _, want := range []string{"/last", "/hers", "one", "another"} {
			require.Contains(t, got, want)
		}
	})
}

func TestMailIsClaimedOnceUntilTheLeaseEnds(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		const mails = 8
		post(t, db, mails)
		claims := make(chan string, 2*mails)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for ok := true; ok; {
					var m mail.Posted
					var err error
					m, ok, err = db.ClaimMail(t.Context(), time.Minute)
					require.NoError(t, err)
					claims <- m.ID
				}
			})
		}
		all.Wait()
		close(claims)
		claimed := map[string]int{}
		for id := range claims {
			claimed[id]++
		}
		require.Equal(t, 4, claimed[""], "then none is due")
		require.Len(t, claimed, mails+1)
		db.Advance(time.Minute)
		again, ok, err := db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		require.True(t, ok, "its claimer has stopped")
		require.Equal(t, []int{1, 2}, []int{claimed[again.ID], again.Attempts})
		require.NoError(t, db.DeferMail(t.Context(), again.ID, db.Now().Add(time.Hour)))
		pending, oldest, err := db.PendingMails(t.Context())
		require.NoError(t, err)
		require.Equal(t, mails, pending)
		require.Equal(t, testkit.Start, oldest)
	})
}

func TestResealMakesTheOlderKeyUnnecessary(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		post(t, db, 3)
		older := db.Box
		db.Box = testkit.Box(t, "a1")
		require.NoError(t, db.Reseal(t.Context(), accountdb.SealedMails))
		db.Box = testkit.Box(t, "a1", "e7")
		require.NoError(t, db.Reseal(t.Context(), accountdb.SealedMails))
		db.Box = testkit.Box(t, "a1")
		require.NoError(t, db.Reseal(t.Context(), accountdb.SealedMails))
		m, _, err := db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		require.False(t, m.Sealed)
		db.Box = older
		m, _, err = db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		require.True(t, m.Sealed, "the older key no longer opens it")
	})
}

func record(t *testing.T, db testkit.DB) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(),
		func(tx *accountdb.Tx) error { return tx.Record("ada", "account.suspend", "acc_1", nil) }))
}

func TestTheAuditLogIsAppendOnly(t *testing.T) {
	testkit.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := testkit.Open(t, url, time.Now)
		record(t, db)
		written := db.Dump(t)["audit_log"]
		statements := []string{
			"UPDATE audit_log SET actor = 'eve'", "UPDATE audit_log SET actor = 'eve' WHERE id = 1",
			"DELETE FROM audit_log", "DELETE FROM audit_log WHERE id = 1",
		}
		if db.Dialect == database.Postgres {
			statements = append(statements, "TRUNCATE audit_log",
				"SET session_replication_role = replica; DELETE FROM audit_log",
				"INSERT INTO audit_log (id, at, actor, action, subject, detail) OVERRIDING SYSTEM VALUE VALUES (1, 0, 'eve', "+
					"'', '', '') "+
					"ON CONFLICT (id) DO UPDATE SET actor = 'eve'")
		} else {
			const replace = "INSERT OR REPLACE INTO audit_log (id, at, actor, action, subject, detail) VALUES (1, 0, 'eve', " +
				"'', '', '')"
			statements = append(statements, replace)
			// a connection that does not ask for recursive_triggers
			require.ErrorContains(t, storetest.Err(storetest.Plain(t, url).ExecContext(t.Context(), replace)), "append-only")
		}
		for _, statement := range statements {
			require.ErrorContains(t, db.Exec(statement).Error, "append-only", statement)
		}
		require.Equal(t, written, db.Dump(t)["audit_log"])
	})
}

func TestTheServingRoleCannotRewriteTheAuditLog(t *testing.T) {
	admin := storetest.Postgres(t)
	role, asRole := storetest.Role(t, admin)
	tel := storetest.Must(telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard}))(t)
	require.NoError(t, database.Migrate(t.Context(), database.Config{URL: admin, ServingRole: role, MaxConnections: 2},
		tel, accountdb.Migrations))
	db := testkit.Open(t, asRole, time.Now)
	record(t, db)
	for _, statement := range []string{
		"UPDATE audit_log SET actor = 'eve'", "DELETE FROM audit_log", "TRUNCATE audit_log",
		"DROP TRIGGER audit_log_is_append_only ON audit_log",
	} {
		require.ErrorContains(t, db.Exec(statement).Error, "SQLSTATE 42501", "no right to %s", statement)
	}
}
