// Package sales is what an account does about its plan: buy it, see to its card and invoices, cancel, resume.
//
// Nothing here gives anybody anything: it opens pages of the processor and passes wishes on. What comes of them is believed when the
// processor says so.
package sales

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// Store is what is kept of accounts.
type Store interface {
	Standing(ctx context.Context, account string) (subscription.Standing, error)
	// KeepCustomer keeps a customer unless one is kept already, and returns the one that is kept.
	KeepCustomer(ctx context.Context, account, customer string) (string, error)
	// Attempt is the wish to buy that was begun within life, or a new one.
	Attempt(ctx context.Context, account, returnURL string, life time.Duration) (Attempt, error)
	KeepPage(ctx context.Context, account, attempt, url string) error
}

// Attempt is one wish to buy.
type Attempt struct {
	ID  string
	URL string // of the page; empty: there is none yet
}

// attemptLife is for how long the same page is opened. It must be shorter than a page of the processor lives: a day, at Stripe.
const attemptLife = 12 * time.Hour

// Sales does what accounts wish.
type Sales struct {
	Store     Store
	Processor processor.Processor
	Intake    intake.Intake
}

// Checkout is where the account buys the plan. One that has it already gets its portal: it would pay twice for the same time.
func (s Sales) Checkout(ctx context.Context, want api.CheckoutRequest) (url string, err error) {
	standing, err := s.look(ctx, want.Account)
	if err != nil {
		return "", err
	}
	if standing.Sold() {
		return s.Processor.Portal(ctx, standing.Customer, want.ReturnURL)
	}
	attempt, err := s.Store.Attempt(ctx, want.Account, want.ReturnURL, attemptLife)
	if err != nil || attempt.URL != "" {
		return attempt.URL, err
	}
	if standing.Customer == "" {
		customer, err := s.Processor.Customer(ctx, want.Account, want.Email)
		if err != nil {
			return "", err
		}
		if standing.Customer, err = s.Store.KeepCustomer(ctx, want.Account, customer); err != nil {
			return "", err
		}
	}
	page, err := s.Processor.Checkout(ctx, processor.Order{
		Account: want.Account, Customer: standing.Customer, ReturnURL: want.ReturnURL, Attempt: attempt.ID,
	})
	if err != nil {
		return "", err
	}
	return page.URL, s.Store.KeepPage(ctx, want.Account, attempt.ID, page.URL)
}

// look is the account's standing with subscriptions of which no announcement has come yet: who has just paid must not pay again.
func (s Sales) look(ctx context.Context, account string) (subscription.Standing, error) {
	standing, err := s.Store.Standing(ctx, account)
	if err != nil || standing.Customer == "" {
		return standing, err
	}
	ids, err := s.Processor.Subscriptions(ctx, standing.Customer)
	if err != nil {
		return standing, err
	}
	known := map[string]bool{}
	for _, state := range standing.States {
		known[state.ID] = true
	}
	fresh := false
	for _, id := range ids {
		if !known[id] {
			if _, err := s.Intake.Refresh(ctx, id, intake.Cause{Actor: account}); err != nil {
				return standing, err
			}
			fresh = true
		}
	}
	if fresh {
		return s.Store.Standing(ctx, account)
	}
	return standing, nil
}

// Portal is where the account changes its card and reads its invoices; not_found where it never bought anything.
func (s Sales) Portal(ctx context.Context, want api.PortalRequest) (url string, err error) {
	standing, err := s.Store.Standing(ctx, want.Account)
	if err != nil {
		return "", err
	}
	if standing.Customer == "" {
		return "", problem.New(problem.NotFound, "The payment processor does not know this account.")
	}
	return s.Processor.Portal(ctx, standing.Customer, want.ReturnURL)
}

// Cancel makes all that renews end by itself at the end of what is paid. An account without anything that renews stays as it is.
func (s Sales) Cancel(ctx context.Context, account string) (subscription.Standing, error) {
	return s.turn(ctx, account, true)
}

// Resume takes a cancellation back, of the subscription that is paid for longest. Where something renews it stays as it is.
func (s Sales) Resume(ctx context.Context, account string) (subscription.Standing, error) {
	return s.turn(ctx, account, false)
}

func (s Sales) turn(ctx context.Context, account string, cancel bool) (subscription.Standing, error) {
	standing, err := s.Store.Standing(ctx, account)
	if err != nil {
		return standing, err
	}
	which, action := standing.Renewing(), "subscription.cancel"
	if !cancel {
		which, action = toResume(standing), "subscription.resume"
	}
	for _, state := range which {
		if err := s.Processor.SetCancel(ctx, state.ID, cancel); err != nil {
			return standing, err
		}
		if _, err := s.Intake.Refresh(ctx, state.ID, intake.Cause{Actor: account, Action: action}); err != nil {
			return standing, err
		}
	}
	return s.Store.Standing(ctx, account)
}

func toResume(standing subscription.Standing) []subscription.State {
	ending := standing.Ending()
	if len(standing.Renewing()) > 0 || len(ending) == 0 {
		return nil
	}
	longest := ending[0]
	for _, state := range ending[1:] {
		if state.Paid.Until.After(longest.Paid.Until) {
			longest = state
		}
	}
	return []subscription.State{longest}
}
