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

// payment is how an account's payments stand. What is in force is read from what we keep; billing is asked only for what can be done.
type payment struct {
	Sold bool // billing runs here
	Away bool // and does not answer
	api.Subscription

	Paid    *api.Entitlement // nil: nothing was ever paid for
	Live    bool             // it is in force
	Plan    string           // its name, or that of what is sold
	Granted string           // what an operator has granted beside it; empty: nothing
	Then    string           // what is left when it ends
	Came    string           // how the person came back from the checkout page: done, left or empty
}

// catchUp takes from billing whether the paid period renews. It tells us a moment after it has answered a person, who would else read here
// the opposite of what they have just done.
func (p *payment) catchUp() {
	told := p.Entitlement
	if p.Paid == nil || p.Paid.PaidUntil == nil || told.PaidUntil == nil || !told.PaidUntil.Equal(*p.Paid.PaidUntil) || told.Version < p.Paid.Version {
		return // another period, or that of an account that was taken over
	}
	paid := *p.Paid
	paid.Renews, p.Paid = told.Renews, &paid
}

// pageTime bounds what a person waits for billing, which may have to ask the payment processor. statusTime is for what it knows itself.
const (
	pageTime   = 10 * time.Second
	statusTime = 2 * time.Second
)

func (s *Site) payment(v *visit) payment {
	p := payment{Sold: s.Billing != nil, Paid: v.Person.PaidAt(v.now), Came: v.Query("checkout")}
	p.Plan = s.offer(api.Commercial).Name
	if p.Paid != nil {
		p.Live = p.Paid.Live(v.now)
		if p.Paid.Tier != api.Free {
			p.Plan = s.offer(p.Paid.Tier).Name
		}
		if p.Live {
			p.Then = s.offer(v.Person.TierAt(*p.Paid.PaidUntil)).Name
		}
	}
	if v.Person.Granted != api.Free {
		p.Granted = s.offer(v.Person.Granted).Name
	}
	if !p.Sold {
		return p
	}
	ctx, cancel := context.WithTimeout(v.Request.Context(), statusTime)
	defer cancel()
	var err error
	if p.Subscription, err = s.Billing.Subscription(ctx, v.Person.Account); err != nil {
		p.Away = true
		s.Log.LogAttrs(ctx, slog.LevelError, "billing does not answer", slog.String("error", err.Error()))
	}
	p.catchUp()
	return p
}

// wish asks billing for something, with a trace in the audit log first: what cannot be recorded is not asked for.
func (s *Site) wish(v *visit, action string, ask func(context.Context) error) error {
	if s.Billing == nil {
		return problem.New(problem.NotFound, "Plans are not sold here.")
	}
	if err := s.Wishes.RecordWish(v.Request.Context(), v.Person.Account, action); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.Request.Context(), pageTime)
	defer cancel()
	err := ask(ctx)
	refused := new(peer.StatusError)
	switch {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError: // it has ended meanwhile, for one
		return problem.New(problem.InvalidParameter, "The payment processor did not take that. Look at where your plan stands now.").Because(err)
	case problem.Of(err).Code == problem.ServiceUnavailable:
		return problem.New(problem.ServiceUnavailable, "The payment service does not answer at the moment. Look at your plan before you try again.").Because(err)
	}
	return err
}

const planPage = home + "/plan"

func (s *Site) upgrade(v *visit) (view, error) {
	if v.Person.SuspendedAt != nil {
		return view{Redirect: planPage, Notice: "An account that is suspended cannot buy a plan."}, nil
	}
	var page string
	err := s.wish(v, "plan.upgrade", func(ctx context.Context) (err error) {
		page, err = s.Billing.Checkout(ctx, api.CheckoutRequest{Account: v.Person.Account, Email: v.Person.Email, ReturnURL: s.PublicURL + planPage})
		return err
	})
	return view{LeaveTo: page}, err
}

func (s *Site) portal(v *visit) (view, error) {
	var page string
	err := s.wish(v, "plan.portal", func(ctx context.Context) (err error) {
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
	case !p.Away && !p.Renewing:
		return view{Redirect: planPage, Notice: "There is nothing to cancel: nothing is charged again."}, nil
	}
	return view{Template: "plan-cancel", Title: "Cancel " + p.Plan, Data: p}, nil
}

func (s *Site) cancel(v *visit) (view, error) {
	var now api.Subscription
	err := s.wish(v, "plan.cancel", func(ctx context.Context) (err error) {
		now, err = s.Billing.Cancel(ctx, v.Person.Account)
		return err
	})
	said := "Cancelled. Nothing is charged any more."
	if now.Renewing { // it began to renew again in between
		said = "The plan still renews. Try again."
	}
	return view{Redirect: planPage, Notice: said}, err
}

func (s *Site) resume(v *visit) (view, error) {
	var now api.Subscription
	err := s.wish(v, "plan.resume", func(ctx context.Context) (err error) {
		now, err = s.Billing.Resume(ctx, v.Person.Account)
		return err
	})
	said := "Resumed. The plan renews by itself again."
	if !now.Renewing { // its end came first
		said = "There was nothing left to resume."
	}
	return view{Redirect: planPage, Notice: said}, err
}
