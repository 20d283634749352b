package testkit

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
)

// PublicURL is the public URL of the gateway, and Actor the operator who sends requests.
const (
	PublicURL = servicetest.PublicURL
	Actor     = servicetest.Actor
)

// Pepper hashes the keys of tests.
var Pepper = []byte("the pepper that tests hash with.")

// Start is the time at which the clock of a DB starts.
var Start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// DB is a database with the current schema.
type DB struct {
	*accountdb.DB

	DatabaseURL string
	Clock       *servicetest.Clock // nil if Open was called
}

// OnBoth runs a test on Postgres and on SQLite.
func OnBoth(t *testing.T, test func(t *testing.T, db DB)) {
	t.Helper()
	Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		clock := servicetest.NewClock(Start)
		db := Open(t, url, clock.Now)
		db.Clock = clock
		test(t, db)
	})
}

// OnSQLite returns a new SQLite database, for tests of what is the same on both.
func OnSQLite(t testing.TB) DB {
	t.Helper()
	clock := servicetest.NewClock(Start)
	db := Open(t, Schema.SQLite(t), clock.Now)
	db.Clock = clock
	return db
}

// Schema is the current schema.
var Schema = servicetest.NewSchema(accountdb.Migrations)

// Open opens a database. It is closed after the test.
func Open(t testing.TB, url string, now func() time.Time) DB {
	t.Helper()
	return DB{
		DatabaseURL: url, DB: &accountdb.DB{
			DB: servicetest.OpenDatabase(t, url), Now: now, Box: Box(t, "e7"), Mails: mail.Writer{
				PublicURL: servicetest.PublicURL,
			},
		},
	}
}

// Box returns a Box with one key for each given byte in hexadecimal, newest first.
func Box(t testing.TB, keys ...string) accountdb.Box {
	t.Helper()
	encoded := make([]string, len(keys))
	for i, key := range keys {
		encoded[i] = strings.Repeat(key, 32)
	}
	return storetest.Must(accountdb.ParseBox(encoded))(t)
}

// Advance moves the clock forward.
func (db DB) Advance(by time.Duration) { db.Clock.Advance(by) }

// TakePosted removes all mails that are due from the outbox and returns them, oldest first.
func (db DB) TakePosted(t testing.TB) (mails []mail.Posted) {
	t.Helper()
	for {
		posted, ok, err := db.ClaimMail(t.Context(), time.Hour)
		require.NoError(t, err)
		if !ok {
			return mails
		}
		require.NoError(t, db.DeleteMail(t.Context(), posted.ID))
		mails = append(mails, posted)
	}
}

// TakeMails is TakePosted with the letter of each.
func (db DB) TakeMails(t testing.TB) (letters []mail.Letter) {
	t.Helper()
	for _, m := range db.TakePosted(t) {
		letters = append(letters, m.Letter)
	}
	return letters
}

// TakeSubjects is TakeMails with the address and subject of each.
func (db DB) TakeSubjects(t testing.TB) (subjects []string) {
	t.Helper()
	for _, m := range db.TakeMails(t) {
		subjects = append(subjects, m.To+": "+m.Subject)
	}
	return subjects
}

// Actions returns the actions of an actor in the audit log, oldest first.
func (db DB) Actions(t testing.TB, actor string) (actions []string) {
	t.Helper()
	require.NoError(t, db.Model(&accountdb.AuditRow{}).Where("actor = ?", actor).Order("id").
		Pluck("action", &actions).Error)
	return actions
}

// Audit returns the actions of the audit log, oldest first.
func (db DB) Audit(t testing.TB) (actions []string) {
	t.Helper()
	require.NoError(t, db.Model(&accountdb.AuditRow{}).Order("id").Pluck("action", &actions).Error)
	return actions
}

// TakeTouched removes all changes and returns their accounts, comma-separated, oldest first.
func (db DB) TakeTouched(t testing.TB) (accounts []string) {
	t.Helper()
	require.NoError(t, db.Raw("SELECT accounts FROM changes ORDER BY sequence").Scan(&accounts).Error)
	require.NoError(t, db.Exec("DELETE FROM changes").Error)
	return accounts
}

// Dump returns every row of every table as text.
func (db DB) Dump(t testing.TB) map[string]string {
	t.Helper()
	names := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if db.Dialect == database.Postgres {
		names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	var tables []string
	require.NoError(t, db.Raw(names).Scan(&tables).Error)
	dump := map[string]string{}
	for _, table := range tables {
		var rows []map[string]any
		require.NoError(t, db.Table(table).Find(&rows).Error)
		dump[table] = fmt.Sprint(rows)
	}
	return dump
}

// ProcessorTime returns the CPU time used by this process, without that of a database server.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
