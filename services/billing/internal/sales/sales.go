// Package sales implements what an account can do about its plan: buy it, open the processor's
// portal, cancel and resume.
//
// Nothing here grants access. Requests are passed to the processor, and the account changes only
// when the processor reports the result.
package sales

import (
	"context"
	"errors"
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

// Sales handles requests of accounts.
type Sales struct{ reconcile.Reconciler }

// Checkout returns the URL where the account buys the plan. An account that already has the plan
// gets the portal instead, because it would pay twice for the same time.
func (s Sales) Checkout(ctx context.Context, req api.ProcessorRequest) (url string, err error) {
	url, account, err := s.checkout(ctx, req)
	if !errors.Is(err, subscription.ErrNoCustomer) {
		return url, err
	}
	if err := s.deleteCustomer(ctx, account); err != nil {
		return "", err
	}
	url, _, err = s.checkout(ctx, req)
	return url, err
}

func (s Sales) checkout(ctx context.Context, req api.ProcessorRequest) (url string, account subscription.Account,
	err error) {
	// The attempt is read before the subscriptions. A purchase made in between uses this attempt's
	// session, so it cannot be paid again.
	attempt, err := s.Store.Attempt(ctx, req.Account, req.ReturnURL)
	if err != nil {
		return "", account, err
	}
	if account, err = s.Store.Account(ctx, req.Account); err != nil {
		return "", account, err
	}
	if account, err = s.refreshNew(ctx, account); err != nil {
		return "", account, err
	}
	// without a customer the processor cannot charge, so buying again is safe
	if account.Subscribed() && account.Customer != "" {
		url, err = s.Processor.Portal(ctx, account.Customer, req.ReturnURL)
		return url, account, err
	}
	if attempt.URL != "" {
		return attempt.URL, account, nil
	}
	if account.Customer == "" {
		customer, err := s.Processor.Customer(ctx, req.Account, req.Email, attempt.ID)
		if err != nil {
			return "", account, err
		}
		if account.Customer, err = s.Store.SaveCustomer(ctx, req.Account, customer); err != nil {
			return "", account, err
		}
	}
	url, err = s.Processor.Checkout(ctx, subscription.Order{
		Account: req.Account, Customer: account.Customer, ReturnURL: req.ReturnURL, Attempt: attempt.ID,
		ExpiresAt: attempt.ExpiresAt,
	})
	if err != nil {
		return "", account, err
	}
	return url, account, s.Store.SaveCheckoutURL(ctx, req.Account, attempt.ID, url)
}

// refreshNew fetches subscriptions that exist at the processor but not in the store yet, so that an
// account that has just paid is not asked to pay again before the webhook event arrives.
func (s Sales) refreshNew(ctx context.Context, account subscription.Account) (subscription.Account, error) {
	if account.Customer == "" {
		return account, nil
	}
	ids, err := s.Processor.Subscriptions(ctx, account.Customer)
	if err != nil {
		return account, err
	}
	known := map[string]bool{}
	for _, state := range account.States {
		known[state.ID] = true
	}
	refreshed := false
	for _, id := range ids {
		if !known[id] {
			if _, err := s.Refresh(ctx, id, store.Cause{Actor: account.ID}); err != nil {
				return account, err
			}
			refreshed = true
		}
	}
	if refreshed {
		return s.Store.Account(ctx, account.ID)
	}
	return account, nil
}

// deleteCustomer deletes a customer that no longer exists at the processor. Its subscriptions ended
// with it, possibly without a webhook event so far, so they are refreshed first.
func (s Sales) deleteCustomer(ctx context.Context, account subscription.Account) error {
	for _, state := range account.States {
		if state.Ended {
			continue
		}
		_, err := s.Refresh(ctx, state.ID, store.Cause{Actor: account.ID})
		if err != nil && !errors.Is(err, subscription.ErrNotFound) {
			return err
		}
	}
	return s.Store.DeleteCustomer(ctx, account.ID, account.Customer)
}

// Portal returns the URL where the account changes its card and reads its invoices. It returns
// not_found if the account is not a customer.
func (s Sales) Portal(ctx context.Context, req api.ProcessorRequest) (url string, err error) {
	account, err := s.Store.Account(ctx, req.Account)
	if err != nil {
		return "", err
	}
	if account.Customer != "" {
		url, err = s.Processor.Portal(ctx, account.Customer, req.ReturnURL)
		if !errors.Is(err, subscription.ErrNoCustomer) {
			return url, err
		}
		if err := s.deleteCustomer(ctx, account); err != nil {
			return "", err
		}
	}
	return "", problem.New(problem.NotFound, "The payment processor has no customer for this account.")
}

// Cancel schedules every renewing subscription of the account to end with its paid period. It does
// nothing if none renews.
func (s Sales) Cancel(ctx context.Context, account string) (subscription.Account, error) {
	return s.setCancel(ctx, account, true)
}

// Resume reverts the cancellation of the subscription with the latest paid period. It does nothing
// if another subscription renews.
func (s Sales) Resume(ctx context.Context, account string) (subscription.Account, error) {
	return s.setCancel(ctx, account, false)
}

func (s Sales) setCancel(ctx context.Context, id string, cancel bool) (subscription.Account, error) {
	account, err := s.Store.Account(ctx, id)
	if err != nil {
		return account, err
	}
	states, action := account.Renewing(), "subscription.cancel"
	if !cancel {
		states, action = longestResumable(account), "subscription.resume"
	}
	for _, state := range states {
		if err := s.setCancelOne(ctx, state.ID, cancel, store.Cause{Actor: id, Action: action}); err != nil {
			return account, err
		}
	}
	return s.Store.Account(ctx, id)
}

// setCancelOne ignores the processor's error if the subscription has ended there in the meantime,
// because it will not charge again.
func (s Sales) setCancelOne(ctx context.Context, id string, cancel bool, cause store.Cause) error {
	rejected := s.Processor.SetCancelAtPeriodEnd(ctx, id, cancel)
	if rejected != nil {
		if problem.Of(rejected).Code == problem.ServiceUnavailable {
			return rejected
		}
		cause.Action = "" // the account's action had no effect: do not audit it
	}
	change, err := s.Refresh(ctx, id, cause)
	if err == nil && rejected != nil && (change.After == nil || !change.After.Ended) {
		return rejected
	}
	return err
}

func longestResumable(account subscription.Account) []subscription.State {
	resumable := account.Resumable()
	if len(account.Renewing()) > 0 || len(resumable) == 0 {
		return nil
	}
	longest := slices.MaxFunc(resumable, func(a, b subscription.State) int { return a.Paid.Until.Compare(b.Paid.Until) })
	return []subscription.State{longest}
}
