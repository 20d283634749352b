package authquota_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// subscriber is a person whose mails are compared after each step.
type subscriber struct {
	t        *testing.T
	stores   *stores
	svc      *service
	now      *servicetest.Clock
	account  string
	version  int64
	received []string
}

func (s *stores) subscriber(t *testing.T) *subscriber {
	t.Helper()
	svc, now := s.startAt(t, begin)
	b := svc.browser()
	b.signUp("ada@example.org")
	return &subscriber{t: t, stores: s, svc: svc, now: now, account: b.Account}
}

// requireMails requires exactly these new mails.
func (p *subscriber) requireMails(more ...string) {
	p.t.Helper()
	p.received = append(p.received, more...)
	storetest.Eventually(p.t, "mails", func() bool {
		return len(p.stores.subjects(p.t, "ada@example.org")) >= len(p.received) && p.stores.waiting(p.t) == 0
	})
	require.Equal(p.t, p.received, p.stores.subjects(p.t, "ada@example.org"))
}

// last returns the text of the last mail.
func (p *subscriber) last() string {
	p.t.Helper()
	mails := p.stores.mails(p.t)
	return mails[len(mails)-1].plain
}

func (p *subscriber) push(e api.Entitlement) {
	p.t.Helper()
	p.version++
	e.Version = p.version
	p.now.Advance(time.Millisecond) // keeps the mail files in order
	p.svc.entitled(p.account, e)
}

// advanceTo moves the clock and waits until the loops have run.
func (p *subscriber) advanceTo(until time.Time) {
	p.t.Helper()
	p.svc.stop()
	p.now.Advance(until.Sub(p.now.Now()))
	p.svc = p.stores.start(p.t, on(p.now))
}

func TestMailsOfAPlanFromItsBeginningToItsEnd(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		p := s.subscriber(t)
		month := paid(begin, 0)
		p.push(month)
		p.requireMails("Your plan has started")
		require.Contains(t, p.last(), "Paid until: 20 December 2026, 10:00 UTC; it renews automatically")
		require.Contains(t, p.last(), "the tier commercial")
		p.push(month)
		p.requireMails()
		month.Renews = false
		p.push(month)
		p.requireMails("Your plan was cancelled")
		require.Contains(t, p.last(), "Paid until: 20 December 2026, 10:00 UTC")
		require.Contains(t, p.last(), "Tier from then on: free")
		month.Renews = true
		p.push(month)
		p.requireMails("Your plan was resumed")

		p.advanceTo(*month.PaidUntil) // the renewal is on its way
		p.requireMails()
		p.now.Advance(time.Hour)
		month = paid(begin.AddDate(0, 1, 0), 0)
		p.push(month)
		p.requireMails() // it was late; no mail about an end was sent
		month.Renews = false
		p.push(month)
		p.requireMails("Your plan was cancelled")
		p.advanceTo(month.PaidUntil.Add(-time.Microsecond))
		p.requireMails()
		p.advanceTo(*month.PaidUntil)
		p.requireMails("Your plan has ended")
		require.Contains(t, p.last(), "now has the tier free")
		p.advanceTo(month.PaidUntil.Add(time.Hour))
		p.push(month)
		p.requireMails()
	})
}

func TestMailsOfFailedPayments(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		p := s.subscriber(t)
		month := paid(begin, 0)
		p.push(month)
		month.Trouble = api.PaymentFailed
		p.push(month)
		p.push(month)
		p.requireMails("Your plan has started", "A payment for your plan failed")
		require.Contains(t, p.last(), "Paid until: 20 December 2026, 10:00 UTC")
		p.advanceTo(*month.PaidUntil)
		p.requireMails("Your plan has ended because a payment failed")
		month = paid(p.now.Now(), 0)
		p.push(month)
		p.requireMails("Your plan has started")

		p.advanceTo(*month.PaidUntil)
		p.now.Advance(time.Hour)
		month.Trouble = api.PaymentFailed
		p.push(month) // the charge for the next month, an hour after it started
		p.requireMails("Your plan has ended because a payment failed")
		p.advanceTo(p.now.Now().Add(24 * time.Hour))
		p.requireMails()

		month = paid(p.now.Now(), 0)
		p.push(month)
		p.requireMails("Your plan has started")
		p.advanceTo(month.PaidUntil.Add(4 * time.Hour)) // no news from billing since
		p.requireMails("Your plan has ended")
	})
}

func TestMailsOfRefundsAndDisputes(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		p := s.subscriber(t)
		servicetest.Read[listedAccount](p.svc.change(p.account, "grant", `{"tier":"developer"}`))
		p.requireMails("Your plan is now developer")
		p.push(paid(begin, 0))
		servicetest.Read[listedAccount](p.svc.change(p.account, "grant", `{"tier":"free"}`)) // no change while more is paid for
		servicetest.Read[listedAccount](p.svc.change(p.account, "grant", `{"tier":"developer"}`))
		p.requireMails("Your plan has started")
		p.push(api.Entitlement{Tier: api.Free, Trouble: api.Refunded})
		p.requireMails("Your payment was refunded and your plan has ended")
		require.Contains(t, p.last(), "now has the tier developer")
		p.advanceTo(begin.AddDate(0, 2, 0))
		p.requireMails() // no second mail about the end

		p.push(paid(p.now.Now(), 0))
		p.push(api.Entitlement{Tier: api.Free, Trouble: api.Disputed})
		p.requireMails("Your plan has started", "Your payment is disputed and your plan has ended")
		p.push(paid(p.now.Now(), 0)) // the dispute is won
		p.requireMails("Your plan has started")
	})
}

// The entitlement moves when its account is merged into another; billing continues to push it under the old ID.
func TestEntitlementMovesWithConnectedAccount(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, now := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		own, _ := b.obtain("Mine")
		older := svc.issue(nil)
		svc.entitled(older.Account, paid(begin, 1))
		b.connect(older.Key).Leads("/account/keys")
		require.Equal(t, api.Commercial, svc.principal(own).Tier)
		require.Equal(t, begin.AddDate(0, 1, 0), svc.principal(older.Key).Next.At)
		storetest.Eventually(t, "the mail arrives", func() bool { return slices.Contains(s.subjects(t, "ada@example.org"), "Your plan is now commercial") })
		b.Get("/account/plan").Shows(200, "commercial")

		before := svc.principal(own).Epoch
		svc.entitled(older.Account, paid(begin.AddDate(0, 1, 0), 2))
		require.Equal(t, begin.AddDate(0, 2, 0), svc.principal(own).Next.At)
		require.Greater(t, svc.principal(own).Epoch, before)
		svc.entitled(b.Account, paid(begin, 1))
		require.Equal(t, begin.AddDate(0, 2, 0), svc.principal(own).Next.At, "the later of both")
		require.Equal(t, int64(2), svc.shown(b.Account).Paid.Version)
		now.Advance(62 * 24 * time.Hour)
		require.Equal(t, api.Free, svc.principal(own).Tier)
	})
}
