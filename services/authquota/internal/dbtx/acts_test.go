package dbtx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/authquotatest"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/people"
)

// member is a person with keys and a passkey.
type member struct {
	authquotatest.Member

	email   string
	current people.Session
	key     keys.Key
	passkey passkey.Passkey
	step    int64
	request string // open request for a key
	reset   string // secret of an unused link
}

func (w *world) unique() string { w.made++; return fmt.Sprintf("%064d", w.made) }

func (w *world) join(email string) *member {
	w.t.Helper()
	m := &member{Member: w.DB.SignUp(w.t, email), email: email}
	var err error
	m.current, _, err = w.Session(w.t.Context(), m.Session)
	require.NoError(w.t, err)
	m.key, err = w.keys.Issue(w.t.Context(), "ann", keys.Order{Account: m.Account}, keys.MaxLife, keys.Record{Digest: w.unique(), LastFour: "abcd"})
	require.NoError(w.t, err)
	m.passkey = passkey.Passkey{ID: passkey.NewID(), Account: m.Account, Name: "laptop", Credential: w.unique(), Record: "{}", Count: 1, AddedAt: w.Now()}
	require.NoError(w.t, w.AddPasskey(w.t.Context(), m.passkey))
	return m
}

func (w *world) halfway(m *member) (people.Session, error) {
	admitted, err := w.SignInHalfway(w.t.Context(), m.Account, people.Entry{})
	if err != nil {
		return people.Session{}, err
	}
	half, _, err := w.Session(w.t.Context(), admitted.Session)
	return half, err
}

func (w *world) link(m *member, purpose people.LinkPurpose) people.FreshLink {
	w.made++
	return people.NewLink(purpose, m.Account, fmt.Sprintf("new%d@example.org", w.made), w.Now())
}

var message = mail.Message{To: "ada@example.org", Template: "password-changed"}

// acts are all kinds of changes that a restored backup must not undo. Each may fail, for example because the account is closed.
var acts = map[string]func(ctx context.Context, w *world, m *member) error{
	"revoke": func(ctx context.Context, w *world, m *member) error {
		_, err := w.keys.Revoke(ctx, "ann", m.key.ID, true)
		return err
	},
	"rotate": func(ctx context.Context, w *world, m *member) error {
		next, _, err := w.keys.Rotate(ctx, m.Account, m.key.ID, keys.Record{Digest: w.unique(), LastFour: "efgh"})
		if err == nil {
			m.key = next
		}
		return err
	},
	"withdraw": func(ctx context.Context, w *world, m *member) error {
		r, err := w.keys.RequestKey(ctx, m.Account, keys.RequestedKey{Name: "a", UseCase: "b"}, account.Acceptance{Version: "1", Accepted: true}, false)
		if err == nil {
			err = w.keys.Withdraw(ctx, m.Account, r.ID)
		}
		return err
	},
	"collect": func(ctx context.Context, w *world, m *member) error {
		terms := account.Acceptance{Version: "1", Accepted: true}
		r, err := w.keys.RequestKey(ctx, m.Account, keys.RequestedKey{Name: "a", UseCase: "b"}, terms, true)
		if err == nil {
			m.key, err = w.keys.Collect(ctx, m.Account, r.ID, terms, keys.Record{Digest: w.unique(), LastFour: "ijkl"})
		}
		return err
	},
	"ask for key": func(ctx context.Context, w *world, m *member) error {
		r, err := w.keys.RequestKey(ctx, m.Account, keys.RequestedKey{Name: "a", UseCase: "b"}, account.Acceptance{Version: "1", Accepted: true}, false)
		m.request = r.ID
		return err
	},
	"decline": func(ctx context.Context, w *world, m *member) error {
		decline, err := keys.Decline("unclear")
		if err == nil {
			_, err = w.keys.Decide(ctx, "ann", m.request, decline)
		}
		return err
	},
	"import": func(ctx context.Context, w *world, _ *member) error {
		_, err := w.keys.ImportKeys(ctx, "ann", []keys.Older{{OlderKey: api.OlderKey{
			SHA256: w.unique(), Tier: api.Free, UseCase: "a", Prefix: "old_", LastFour: "uvwx", ExpiresAt: w.Now().Add(time.Hour),
		}}}, [][]byte{[]byte("a pepper of 32 bytes for a test.")})
		return err
	},
	"connect paid": func(ctx context.Context, w *world, m *member) error {
		digest, until := w.unique(), w.Now().Add(time.Hour)
		paid, err := w.keys.Issue(ctx, "ann", keys.Order{Tier: api.Free}, keys.MaxLife, keys.Record{Digest: digest, LastFour: "yzab"})
		if err == nil {
			_, err = w.plan.Entitle(ctx, paid.Account, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: int64(w.made)})
		}
		if err == nil {
			_, err = w.keys.Connect(ctx, m.Account, []string{digest})
		}
		return err
	},
	"connect": func(ctx context.Context, w *world, m *member) error {
		digest := w.unique()
		if _, err := w.keys.Issue(ctx, "ann", keys.Order{Tier: api.Developer}, keys.MaxLife, keys.Record{Digest: digest, LastFour: "mnop"}); err != nil {
			return err
		}
		_, err := w.keys.Connect(ctx, m.Account, []string{digest})
		return err
	},
	"suspend": func(ctx context.Context, w *world, m *member) error {
		change, _ := account.Suspend("abuse")
		_, err := w.accounts.ChangeAccount(ctx, "ann", m.Account, change)
		return err
	},
	"resume": func(ctx context.Context, w *world, m *member) error {
		change, _ := account.Resume("sorted out")
		_, err := w.accounts.ChangeAccount(ctx, "ann", m.Account, change)
		return err
	},
	"entitle": func(ctx context.Context, w *world, m *member) error {
		w.made++
		until := w.Now().Add(time.Hour)
		keeper := highwater.Row{Store: "billing", DB: w.DB.DB.DB}
		kept, err := keeper.Marks(ctx)
		if err == nil {
			_, err = keeper.Replace(ctx, kept, fmt.Sprintf("%d.a change of billing", w.made), false)
		}
		if err != nil {
			return err
		}
		_, err = w.plan.Entitle(ctx, m.Account, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: int64(w.made)})
		return err
	},
	"end plan": func(ctx context.Context, w *world, m *member) error {
		w.made++
		until := w.Now().Add(time.Hour)
		_, err := w.plan.Entitle(ctx, m.Account, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: int64(w.made)})
		w.Advance(2 * time.Hour)
		return errors.Join(err, w.plan.EndPlans(ctx))
	},
	"remind": func(ctx context.Context, w *world, m *member) error {
		_, err := w.keys.Issue(ctx, "ann", keys.Order{Account: m.Account}, 7*24*time.Hour+time.Minute, keys.Record{Digest: w.unique(), LastFour: "qrst"})
		w.Advance(2 * time.Minute) // the notice of 7 days is due
		return errors.Join(err, w.keys.Remind(ctx))
	},
	"announce": func(ctx context.Context, w *world, _ *member) error {
		_, err := w.notices.Announce(ctx, "ann", notices.Announcement{ID: "n" + w.unique()[56:], Kind: notices.APIChanged, Subject: "a", Text: "b"})
		w.TakeSubjects(w.t) // the next batch waits until the outbox is empty
		return errors.Join(err, w.notices.PostAnnouncements(ctx))
	},
	"close": func(ctx context.Context, w *world, m *member) error { return w.CloseAccount(ctx, m.Account) },
	"change password": func(ctx context.Context, w *world, m *member) error {
		before, err := w.PasswordHash(ctx, m.Account)
		if err == nil {
			_, err = w.ChangePassword(ctx, m.current, before, w.unique())
		}
		return err
	},
	"reset password": func(ctx context.Context, w *world, m *member) error {
		l := w.link(m, people.LinkReset)
		l.Email = m.email
		if err := w.RequestReset(ctx, l, message); err != nil {
			return err
		}
		return w.ResetPassword(ctx, l.Secret, w.unique(), people.Entry{})
	},
	"ask for reset": func(ctx context.Context, w *world, m *member) error {
		l := w.link(m, people.LinkReset)
		l.Email, m.reset = m.email, l.Secret
		return w.RequestReset(ctx, l, message)
	},
	"reset later": func(ctx context.Context, w *world, m *member) error {
		return w.ResetPassword(ctx, m.reset, w.unique(), people.Entry{})
	},
	"ask for address": func(ctx context.Context, w *world, m *member) error {
		return w.RequestAddressChange(ctx, w.link(m, people.LinkNewAddress), w.link(m, people.LinkOldAddress), message, message, message)
	},
	"change address": func(ctx context.Context, w *world, m *member) error {
		l := w.link(m, people.LinkNewAddress)
		err := w.RequestAddressChange(ctx, l, w.link(m, people.LinkOldAddress), message, message, message)
		if err == nil {
			err = w.ChangeAddress(ctx, l.Secret)
		}
		if err == nil {
			m.email = l.Email
		}
		return err
	},
	"end session": func(ctx context.Context, w *world, m *member) error {
		return w.EndSession(ctx, m.Account, m.current.ID)
	},
	"end sessions": func(ctx context.Context, w *world, m *member) error { return w.EndSessions(ctx, m.Account) },
	"renew codes": func(ctx context.Context, w *world, m *member) error {
		return w.RenewCodes(ctx, m.Account, []string{w.unique(), w.unique()})
	},
	"remove passkey": func(ctx context.Context, w *world, m *member) error {
		return w.RemovePasskey(ctx, m.Account, m.passkey.ID)
	},
	"confirm by code": func(ctx context.Context, w *world, m *member) error {
		m.step++
		_, err := w.ConfirmByCode(ctx, m.current, m.step)
		return err
	},
	"sign in by code": func(ctx context.Context, w *world, m *member) error {
		half, err := w.halfway(m)
		if err == nil {
			m.step++
			_, err = w.SignInByCode(ctx, half, people.Entry{}, m.step)
		}
		return err
	},
	"use recovery code": func(ctx context.Context, w *world, m *member) error {
		half, err := w.halfway(m)
		if err != nil {
			return err
		}
		code := w.unique()
		if err := w.RenewCodes(ctx, m.Account, []string{code}); err != nil {
			return err
		}
		_, err = w.SignInByRecoveryCode(ctx, half, people.Entry{}, code)
		return err
	},
	"use passkey": func(ctx context.Context, w *world, m *member) error {
		m.passkey.Count++
		m.passkey.UsedAt = new(w.Now())
		_, err := w.ConfirmByPasskey(ctx, m.current, m.passkey)
		return err
	},
	"replace authenticator": func(ctx context.Context, w *world, m *member) error {
		seed, err := w.NewSeed(ctx, m.current)
		if err == nil {
			m.step++
			_, err = w.ReplaceAuthenticator(ctx, m.current, seed, m.step)
		}
		return err
	},
	"lose authenticator": func(ctx context.Context, w *world, m *member) error {
		lost := w.link(m, people.LinkLost)
		err := w.RequestNewAuthenticator(ctx, m.Account, lost, w.link(m, people.LinkKeep), message)
		if err == nil {
			_, err = w.BeginReset(ctx, lost.Secret)
		}
		return err
	},
	"remove lost authenticator": func(_ context.Context, w *world, m *member) error {
		w.Advance(people.ResetWait)
		_, err := w.halfway(m)
		return err
	},
	"keep authenticator": func(ctx context.Context, w *world, m *member) error { return w.KeepAuthenticator(ctx, m.Account) },
}
