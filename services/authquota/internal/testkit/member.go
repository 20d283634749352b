package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

// Password is the password of every Member.
const Password = "ploughing-under-seven-lanterns"

// ProductionCost is the cost of password hashes in production.
var ProductionCost = credential.PasswordCost

// full cost takes half of the processor time of these tests
func init() { credential.PasswordCost.Memory, credential.PasswordCost.Iterations = 64, 1 }

var hash = sync.OnceValues(func() (string, error) { return credential.HashPassword(context.Background(), Password) })

// Member is a person who has signed up and is signed in.
type Member struct {
	Account string
	Session string   // secret
	Device  string   // secret of the browser, which has signed in before
	Seed    string   // of the authenticator
	Codes   []string // recovery codes
}

// SignUp signs a person up in the stores. No code of the authenticator is used yet. One mail is in
// the outbox.
func (db DB) SignUp(t testing.TB, email string) Member {
	t.Helper()
	ctx, store := t.Context(), people.NewStore(db.DB)
	hashed := storetest.Must(hash())(t)
	require.NoError(t, store.RequestSignUp(ctx, email))
	entry := people.Entry{Client: people.Client{Agent: "Firefox on Linux", Network: "203.0.113.0/24"}}
	admitted := storetest.Must(store.SignUp(ctx, db.linkSecret(t, email), hashed, entry))(t)
	half, _, err := store.Session(ctx, admitted.Session)
	require.NoError(t, err)
	seed := storetest.Must(store.NewSeed(ctx, half))(t)
	codes, hashes := people.NewRecoveryCodes()
	entry.Device = admitted.Device
	full := storetest.Must(store.ConfirmAuthenticator(ctx, half, entry, seed, 0, hashes))(t)
	return Member{Account: half.Account, Session: full.Session, Device: full.Device, Seed: seed.Seed, Codes: codes}
}

// linkSecret gives the link to sign up with an address a new secret, because only the hash of its
// own is stored, and returns it.
func (db DB) linkSecret(t testing.TB, email string) string {
	t.Helper()
	secret := people.NewSecret()
	require.NoError(t, db.Exec("UPDATE links SET token_hash = ? WHERE email = ? AND purpose = ?",
		people.HashSecret(secret), email, people.LinkConfirm).Error)
	return secret
}

// Person signs a person up and removes all mails. It returns the account and the secret of the
// session.
func (db DB) Person(t testing.TB, email string) (accountID, secret string) {
	t.Helper()
	m := db.SignUp(t, email)
	db.TakePosted(t)
	return m.Account, m.Session
}
