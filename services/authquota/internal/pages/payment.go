package pages

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// payment is the payment state of an account. The paid period is read from the own database; billing is queried only for
// possible actions.
type payment struct {
	Sold        bool // plans are sold here
	Unavailable bool // but billing is unavailable
	api.Subscription

	Paid    *api.Entitlement // nil if nothing was ever paid
	Live    bool             // Paid is in effect
	Plan    string           // the paid plan, or the one on sale
	Granted string           // the plan of the granted tier; empty if none
	Then    string           // the plan after it ends
	Return  string           // how the person returned from the checkout page: done, left or empty
}

// refreshRenewal takes from billing whether the paid period renews. billing pushes the entitlement shortly after it responds to
// a person, so the stored one may still contradict what they just did.
func (p *payment) refreshRenewal() {
	latest := p.Entitlement
	if p.Paid == nil || p.Paid.PaidUntil == nil || latest.PaidUntil == nil || !latest.PaidUntil.Equal(*p.Paid.PaidUntil) || latest.Version < p.Paid.Version {
		return // another period, or that of a merged account
	}
	paid := *p.Paid
	paid.Renews, p.Paid = latest.Renews, &paid
}

// pageTime bounds requests for which billing may call the payment processor. statusTime bounds those it serves from its own
// database.
const (
	pageTime   = 10 * time.Second
	statusTime = 2 * time.Second
)

func (s *Site) payment(v *visit) payment {
	p := payment{Sold: s.Billing != nil, Paid: v.Person.PaidAt(v.now), Return: v.Query("checkout")}
	p.Plan = api.SoldPlan().Name
	if p.Paid != nil {
		p.Live = p.Paid.Live(v.now)
		if p.Paid.Tier != api.BaseTier {
			p.Plan = s.offer(p.Paid.Tier).Name
		}
		if p.Live {
			p.Then = s.offer(v.Person.TierAt(*p.Paid.PaidUntil)).Name
		}
	}
	if v.Person.Granted != api.BaseTier {
		p.Granted = s.offer(v.Person.Granted).Name
	}
	if !p.Sold {
		return p
	}
	ctx, cancel := context.WithTimeout(v.Request.Context(), statusTime)
	defer cancel()
	var err error
	if p.Subscription, err = s.Billing.Subscription(ctx, v.Person.Account); err != nil {
		p.Unavailable = true
		s.Log.LogAttrs(ctx, slog.LevelError, "billing unavailable", slog.String("error", err.Error()))
	}
	p.refreshRenewal()
	return p
}

// planAction records an action in the audit log and then sends it to billing. It sends nothing if recording fails.
func (s *Site) planAction(v *visit, action string, do func(context.Context) error) error {
	if s.Billing == nil {
		return problem.New(problem.NotFound, "Plans are not sold here.")
	}
	if err := s.PlanActions.RecordPlanAction(v.Request.Context(), v.Person.Account, action); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.Request.Context(), pageTime)
	defer cancel()
	err := do(ctx)
	rejected := new(peer.StatusError)
	switch {
	case errors.As(err, &rejected) && rejected.Status < http.StatusInternalServerError: // for example, it ended in the meantime
		return problem.New(problem.InvalidParameter, "The payment processor rejected the request. Check the state of your plan.").Because(err)
	case problem.Of(err).Code == problem.ServiceUnavailable:
		return problem.New(problem.ServiceUnavailable, "The payment service is temporarily unavailable. Check your plan before you try again.").Because(err)
	}
	return err
}

const planPage = home + "/plan"

func (s *Site) upgrade(v *visit) (view, error) {
	if v.Person.SuspendedAt != nil {
		return view{Redirect: planPage, Notice: "A suspended account cannot buy a plan."}, nil
	}
	var page string
	err := s.planAction(v, "plan.upgrade", func(ctx context.Context) (err error) {
		page, err = s.Billing.Checkout(ctx, api.CheckoutRequest{Account: v.Person.Account, Email: v.Person.Email, ReturnURL: s.PublicURL + planPage})
		return err
	})
	return view{LeaveTo: page}, err
}

func (s *Site) portal(v *visit) (view, error) {
	var page string
	err := s.planAction(v, "plan.portal", func(ctx context.Context) (err error) {
		page, err = s.Billing.Portal(ctx, api.PortalRequest{Account: v.Person.Account, ReturnURL: s.PublicURL + planPage})
		return err
	})
	return view{LeaveTo: page}, err
}

func (s *Site) askCancel(v *visit) (view, error) {
	p := s.payment(v)
	switch {
	case !p.Sold:
		return view{}, problem.New(problem.NotFound, "Plans are not sold here.")
	case !p.Unavailable && !p.Renewing:
		return view{Redirect: planPage, Notice: "There is nothing to cancel: your plan does not renew."}, nil
	}
	return view{Template: "plan-cancel", Title: "Cancel " + p.Plan, Data: p}, nil
}

func (s *Site) cancel(v *visit) (view, error) {
	var now api.Subscription
	err := s.planAction(v, "plan.cancel", func(ctx context.Context) (err error) {
		now, err = s.Billing.Cancel(ctx, v.Person.Account)
		return err
	})
	notice := "Cancelled. You will not be charged again."
	if now.Renewing { // it was resumed in the meantime
		notice = "The plan still renews. Try again."
	}
	return view{Redirect: planPage, Notice: notice}, err
}

func (s *Site) resume(v *visit) (view, error) {
	var now api.Subscription
	err := s.planAction(v, "plan.resume", func(ctx context.Context) (err error) {
		now, err = s.Billing.Resume(ctx, v.Person.Account)
		return err
	})
	notice := "Resumed. The plan renews automatically again."
	if !now.Renewing { // it ended in the meantime
		notice = "There was nothing to resume."
	}
	return view{Redirect: planPage, Notice: notice}, err
}
