// Package dbtxtest gives store tests a database of authquota.
package dbtxtest

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people/link"
	"opportunity.internal/services/authquota/internal/people/session"
	peoplestore "opportunity.internal/services/authquota/internal/people/store"
	"opportunity.internal/services/authquota/internal/secretbox"
	"opportunity.internal/services/authquota/migrations"
)

// Start is the time at which the clock of a DB starts.
var Start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// DB is a new database with the current schema, and a clock that the test moves.
type DB struct {
	*dbtx.DB

	clock *clock
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

// OnBoth runs a test on Postgres and on SQLite.
func OnBoth(t *testing.T, test func(t *testing.T, db DB)) {
	t.Helper()
	Schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

// Schema is the current schema.
var Schema = storetest.NewSchema(func(url string) error {
	tel, err := telemetry.Start(context.Background(), "test", telemetry.Config{LogOutput: io.Discard})
	if err != nil {
		return err
	}
	return database.Migrate(context.Background(), config(url), tel, migrations.Files)
})

func config(url string) database.Config { return database.Config{URL: url, MaxConnections: 10} }

func open(t *testing.T, url string) DB {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	opened, err := database.Open(config(url), tel)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	at := &clock{now: Start}
	return DB{&dbtx.DB{DB: opened, Now: at.read, Box: Box(t, "e7"), Mails: mail.NewWriter("https://api.example")}, at}
}

// Box returns a Box with one key for each given byte in hexadecimal, newest first.
func Box(t *testing.T, keys ...string) secretbox.Box {
	t.Helper()
	encoded := make([]string, len(keys))
	for i, key := range keys {
		encoded[i] = strings.Repeat(key, 32)
	}
	box, err := secretbox.Parse(encoded)
	require.NoError(t, err)
	return box
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (db DB) Advance(by time.Duration) {
	db.clock.mu.Lock()
	defer db.clock.mu.Unlock()
	db.clock.now = db.clock.now.Add(by)
}

// TakeMails removes all mails from the outbox and returns them, oldest first.
func (db DB) TakeMails(t *testing.T) (mails []mail.Letter) {
	t.Helper()
	for {
		posted, ok, err := db.ClaimMail(t.Context(), time.Hour)
		require.NoError(t, err)
		if !ok {
			return mails
		}
		require.NoError(t, db.DeleteMail(t.Context(), posted.ID))
		mails = append(mails, posted.Letter)
	}
}

// TakeSubjects is TakeMails with the address and subject of each.
func (db DB) TakeSubjects(t *testing.T) (subjects []string) {
	t.Helper()
	for _, m := range db.TakeMails(t) {
		subjects = append(subjects, m.To+": "+m.Subject)
	}
	return subjects
}

// Audit returns the actions of the audit log, oldest first.
func (db DB) Audit(t *testing.T) (actions []string) {
	t.Helper()
	require.NoError(t, db.Model(&dbtx.AuditRow{}).Order("id").Pluck("action", &actions).Error)
	return actions
}

// Raises returns the accounts with a pending epoch increment.
func (db DB) Raises(t *testing.T) (accounts []string) {
	t.Helper()
	raises, err := db.PendingRaises(t.Context(), "", 1000)
	require.NoError(t, err)
	for _, r := range raises {
		accounts = append(accounts, r.Account)
	}
	return accounts
}

// Person signs up a person with an authenticator. It returns the account and the secret of the session.
func (db DB) Person(t *testing.T, email string) (accountID, secret string) {
	t.Helper()
	ctx, signIns, factors := t.Context(), peoplestore.NewSignIns(db.DB), peoplestore.NewFactors(db.DB)
	confirm := link.New(link.Confirm, "", email, db.Now())
	message := mail.Message{To: email, Template: "confirm-address", Data: map[string]string{"link": "https://api.example/account"}}
	require.NoError(t, signIns.RequestSignUp(ctx, confirm, message, message))
	admitted, err := signIns.SignUp(ctx, confirm.Secret, "hash", session.Entry{})
	require.NoError(t, err)
	half, _, err := signIns.Session(ctx, admitted.Session)
	require.NoError(t, err)
	seed, err := factors.NewSeed(ctx, half)
	require.NoError(t, err)
	admitted, err = factors.ConfirmAuthenticator(ctx, half, session.Entry{}, seed, 0, nil)
	require.NoError(t, err)
	db.TakeMails(t)
	return half.Account, admitted.Session
}
