// Package sales is what an account does about its plan: buy it, see to its card and invoices, cancel, resume.
//
// Nothing here gives anybody anything: it opens pages of the processor and passes wishes on. What comes of them is believed when the
// processor says so.
package sales

import (
	"context"
	"errors"
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
	// ForgetCustomer removes a customer, unless another one is kept by now.
	ForgetCustomer(ctx context.Context, account, customer string) error
	// Attempt is the wish to buy that was begun within life, or a new one.
	Attempt(ctx context.Context, account, returnURL string, life time.Duration) (Attempt, error)
	KeepPage(ctx context.Context, account, attempt, url string) error
}

// Attempt is one wish to buy.
type Attempt struct {
	ID    string
	URL   string    // of the page; empty: there is none yet
	Until time.Time // when the page ends; the next wish is another one
}

// attemptLife is for how long the same page is opened. Its page ends with it: whoever had two pages could pay on both. Stripe keeps a page
// for half an hour at least and for a day at most.
const attemptLife = 12 * time.Hour

// Sales does what accounts wish.
type Sales struct {
	Store     Store
	Processor processor.Processor
	Intake    intake.Intake
}

// Checkout is where the account buys the plan. One that has it already gets its portal: it would pay twice for the same time.
func (s Sales) Checkout(ctx context.Context, want api.CheckoutRequest) (url string, err error) {
	url, standing, err := s.checkout(ctx, want)
	if !errors.Is(err, processor.ErrNoCustomer) {
		return url, err
	}
	if err := s.forget(ctx, standing); err != nil {
		return "", err
	}
	url, _, err = s.checkout(ctx, want)
	return url, err
}

func (s Sales) checkout(ctx context.Context, want api.CheckoutRequest) (url string, standing subscription.Standing, err error) {
	// Before the look: what is bought after it was bought on the page of this very attempt, and there is no second one to pay on.
	attempt, err := s.Store.Attempt(ctx, want.Account, want.ReturnURL, attemptLife)
	if err != nil {
		return "", standing, err
	}
	if standing, err = s.Store.Standing(ctx, want.Account); err != nil {
		return "", standing, err
	}
	if standing, err = s.look(ctx, standing); err != nil {
		return "", standing, err
	}
	if standing.Sold() && standing.Customer != "" { // the processor would not charge for what it has no customer of
		url, err = s.Processor.Portal(ctx, standing.Customer, want.ReturnURL)
		return url, standing, err
	}
	if attempt.URL != "" {
		return attempt.URL, standing, nil
	}
	if standing.Customer == "" {
		customer, err := s.Processor.Customer(ctx, want.Account, want.Email, attempt.ID)
		if err != nil {
			return "", standing, err
		}
		if standing.Customer, err = s.Store.KeepCustomer(ctx, want.Account, customer); err != nil {
			return "", standing, err
		}
	}
	page, err := s.Processor.Checkout(ctx, processor.Order{
		Account: want.Account, Customer: standing.Customer, ReturnURL: want.ReturnURL, Attempt: attempt.ID, Until: attempt.Until,
	})
	if err != nil {
		return "", standing, err
	}
	return page.URL, standing, s.Store.KeepPage(ctx, want.Account, attempt.ID, page.URL)
}

// look is an account's standing with subscriptions of which no announcement has come yet: who has just paid must not pay again.
func (s Sales) look(ctx context.Context, standing subscription.Standing) (subscription.Standing, error) {
	if standing.Customer == "" {
		return standing, nil
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
			if _, err := s.Intake.Refresh(ctx, id, intake.Cause{Actor: standing.Account}); err != nil {
				return standing, err
			}
			fresh = true
		}
	}
	if fresh {
		return s.Store.Standing(ctx, standing.Account)
	}
	return standing, nil
}

// forget parts with a customer that somebody has deleted at the processor. Its subscriptions have ended with it, of which no announcement
// may have come yet.
func (s Sales) forget(ctx context.Context, standing subscription.Standing) error {
	for _, state := range standing.States {
		if state.Ended {
			continue
		}
		_, err := s.Intake.Refresh(ctx, state.ID, intake.Cause{Actor: standing.Account})
		if err != nil && !errors.Is(err, processor.ErrUnknown) {
			return err
		}
	}
	return s.Store.ForgetCustomer(ctx, standing.Account, standing.Customer)
}

// Portal is where the account changes its card and reads its invoices; not_found where it never bought anything.
func (s Sales) Portal(ctx context.Context, want api.PortalRequest) (url string, err error) {
	standing, err := s.Store.Standing(ctx, want.Account)
	if err != nil {
		return "", err
	}
	if standing.Customer != "" {
		url, err = s.Processor.Portal(ctx, standing.Customer, want.ReturnURL)
		if !errors.Is(err, processor.ErrNoCustomer) {
			return url, err
		}
		if err := s.forget(ctx, standing); err != nil {
			return "", err
		}
	}
	return "", problem.New(problem.NotFound, "The payment processor does not know this account.")
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
		if err := s.turnOne(ctx, state.ID, cancel, intake.Cause{Actor: account, Action: action}); err != nil {
			return standing, err
		}
	}
	return s.Store.Standing(ctx, account)
}

// turnOne leaves one as it is that has ended at the processor meanwhile, which refuses it then: it charges no more.
func (s Sales) turnOne(ctx context.Context, id string, cancel bool, why intake.Cause) error {
	refused := s.Processor.SetCancel(ctx, id, cancel)
	if refused != nil {
		if problem.Of(refused).Code == problem.ServiceUnavailable {
			return refused
		}
		why.Action = "" // it was not done
	}
	change, err := s.Intake.Refresh(ctx, id, why)
	if err == nil && refused != nil && (change.Has == nil || !change.Has.Ended) {
		return refused
	}
	return err
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
