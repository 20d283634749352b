package dbtxtest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people/link"
	"opportunity.internal/services/authquota/internal/people/password"
	"opportunity.internal/services/authquota/internal/people/recovery"
	"opportunity.internal/services/authquota/internal/people/session"
	"opportunity.internal/services/authquota/internal/people/store"
)

// Password is the password of every Member.
const Password = "ploughing-under-seven-lanterns"

func init() { password.Cost.Memory, password.Cost.Iterations = 64, 1 } // full cost takes half of the processor time of these tests

var hash = sync.OnceValues(func() (string, error) { return password.Hash(context.Background(), Password) })

// Member is a person who has signed up and is signed in.
type Member struct {
	Account string
	Session string   // secret
	Device  string   // secret of the browser, which has signed in before
	Seed    string   // of the authenticator
	Codes   []string // recovery codes
}

// SignUp signs a person up in the stores. No code of the authenticator is used yet. One mail is in the outbox.
func (db DB) SignUp(t testing.TB, email string) Member {
	t.Helper()
	ctx, people := t.Context(), store.New(db.DB)
	hashed, err := hash()
	require.NoError(t, err)
	confirm := link.New(link.Confirm, "", email, db.Now())
	message := mail.Message{To: email, Template: "confirm-address", Data: map[string]string{"link": "https://api.example/account"}}
	require.NoError(t, people.RequestSignUp(ctx, confirm, message, message))
	entry := session.Entry{Client: session.Client{Agent: "Firefox on Linux", Network: "203.0.113.0/24"}}
	admitted, err := people.SignUp(ctx, confirm.Secret, hashed, entry)
	require.NoError(t, err)
	half, _, err := people.Session(ctx, admitted.Session)
	require.NoError(t, err)
	seed, err := people.NewSeed(ctx, half)
	require.NoError(t, err)
	codes := recovery.Generate()
	hashes := make([]string, len(codes))
	for i, c := range codes {
		hashes[i] = recovery.Hash(c)
	}
	entry.Device = admitted.Device
	full, err := people.ConfirmAuthenticator(ctx, half, entry, seed, 0, hashes)
	require.NoError(t, err)
	return Member{Account: half.Account, Session: full.Session, Device: full.Device, Seed: seed.Seed, Codes: codes}
}

// Person signs a person up and removes all mails. It returns the account and the secret of the session.
func (db DB) Person(t testing.TB, email string) (accountID, secret string) {
	t.Helper()
	m := db.SignUp(t, email)
	db.TakePosted(t)
	return m.Account, m.Session
}
