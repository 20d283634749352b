package accountpages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/plan"
)

type planView struct {
	Mine    plan.Offer
	Offers  []plan.Offer // lowest tier first
	Next    *plan.Offer  // the next one on sale, or nil
	Gains   []string
	Payment payment
}

func (p *Pages) plan(v *Visit) (pages.View, error) {
	var shown planView
	for _, t := range api.Tiers {
		o := plan.OfferOf(t.Tier, p.Tiers)
		o.Current = t.Tier == v.Person.Tier
		shown.Offers = append(shown.Offers, o)
		_, bought := api.PlanOf(o.Tier)
		switch {
		case o.Current:
			shown.Mine = o
		case shown.Mine.Tier != "" && bought && shown.Next == nil:
			shown.Next = &o
		}
	}
	if shown.Mine.Tier == "" {
		return pages.View{}, fmt.Errorf("account %s has the unknown tier %q", v.Person.Account, v.Person.Tier)
	}
	if shown.Next != nil {
		shown.Gains = plan.Gains(shown.Mine, *shown.Next)
	}
	shown.Payment = p.payment(v)
	page := pages.View{Template: "plan", Title: "Plan", Data: shown}
	if shown.Payment.Sold {
		page.FormsTo = processorOrigins
	}
	if shown.Payment.State() == "unconfirmed" { // it is confirmed within seconds
		page.Header = http.Header{"Refresh": {"3"}}
	}
	return page, nil
}

// payment is the payment state of an account. The paid period is read from the own database;
// billing is queried only for possible actions.
type payment struct {
	Sold        bool // plans are sold here
	Unavailable bool // but billing is unavailable
	api.Subscription

	Paid    *api.Entitlement // nil if nothing was ever paid
	Live    bool             // Paid is in effect
	Plan    string           // the paid plan, or the one on sale
	Granted string           // the plan of the granted tier; empty if none
	Then    string           // the plan after it ends
	Return  string           // how the person returned from the checkout: done, left or empty
}

// State returns what became of the latest payment, for the one notice about it; empty if there is
// nothing to say. A return from the checkout says that the person has paid; only the entitlement,
// which the processor's confirmation changes, says that it took effect.
func (p payment) State() string {
	var trouble api.Trouble
	if p.Paid != nil {
		trouble = p.Paid.Trouble
	}
	switch {
	case p.Return == "done" && p.Live && trouble == "":
		return "confirmed"
	case p.Return == "done" && !p.Live:
		return "unconfirmed"
	case trouble == api.PaymentFailed && p.Live:
		return "renewal-failed"
	case trouble == api.PaymentFailed && p.Paid.PaidUntil != nil:
		return "ended-unpaid"
	case trouble == api.PaymentFailed:
		return "failed"
	case trouble != "":
		return string(trouble)
	}
	return p.Return
}

// refreshRenewal takes from billing whether the paid period renews. billing pushes the entitlement
// shortly after it responds to a person, so the stored one may still contradict what they just did.
func (p *payment) refreshRenewal() {
	latest := p.Entitlement
	if p.Paid == nil || p.Paid.PaidUntil == nil || latest.PaidUntil == nil ||
		!latest.PaidUntil.Equal(*p.Paid.PaidUntil) || latest.Version < p.Paid.Version {
		return // another period, or that of a merged account
	}
	paid := *p.Paid
	paid.Renews, p.Paid = latest.Renews, &paid
}

// actionTime bounds requests for which billing may call the payment processor, so that our own
// error reaches the person before the gateway gives up. statusTime bounds requests that billing
// serves from its own database.
const (
	actionTime = api.GatewayTimeout - time.Second
	statusTime = 2 * time.Second
)

func (p *Pages) payment(v *Visit) payment {
	name := func(t api.Tier) string { return plan.OfferOf(t, p.Tiers).Name }
	state := payment{
		Sold: p.Billing != nil, Paid: v.Person.PaidAt(v.Now), Return: v.Query("checkout"), Plan: api.SoldPlan().Name,
	}
	if state.Paid != nil {
		state.Live = state.Paid.Live(v.Now)
		if state.Paid.Tier != api.BaseTier {
			state.Plan = name(state.Paid.Tier)
		}
		if state.Live {
			state.Then = name(v.Person.TierAt(*state.Paid.PaidUntil))
		}
	}
	if v.Person.Granted != api.BaseTier {
		state.Granted = name(v.Person.Granted)
	}
	if !state.Sold {
		return state
	}
	ctx, cancel := context.WithTimeout(v.ctx(), statusTime)
	defer cancel()
	if err := p.Billing.Get(ctx, plan.SubscriptionPath(v.Person.Account), &state.Subscription); err != nil {
		state.Unavailable = true
		p.Errors.Log.LogAttrs(ctx, slog.LevelError, "billing unavailable", slog.String("error", err.Error()))
	}
	state.refreshRenewal()
	return state
}

// planAction records an action in the audit log and then posts it to billing. It posts nothing if
// recording fails.
func (p *Pages) planAction(v *Visit, action, path string, in, out any) error {
	if p.Billing == nil {
		return problem.New(problem.NotFound, "Plans are not sold here.")
	}
	ctx, cancel := context.WithTimeout(v.ctx(), actionTime)
	defer cancel()
	err := p.DB.Change(ctx, func(tx *accountdb.Tx) error {
		return tx.Record(v.Person.Account, action, v.Person.Account, map[string]any{})
	})
	if err != nil {
		return err
	}
	err = p.Billing.Post(ctx, path, in, out)
	rejected := new(peer.StatusError)
	switch {
	// for example, it ended in the meantime
	case errors.As(err, &rejected) && rejected.Status < http.StatusInternalServerError:
		return problem.New(problem.InvalidParameter,
			"The payment processor rejected the request. Check the state of your plan.").Because(err)
	case problem.Of(err).Code == problem.ServiceUnavailable:
		return problem.New(problem.ServiceUnavailable,
			"The payment service is temporarily unavailable. Check your plan before you try again.").Because(err)
	}
	return err
}

// askUpgrade is the page to continue on after a confirmation of the identity interrupted an
// upgrade.
func (p *Pages) askUpgrade(v *Visit) (pages.View, error) {
	page, err := p.plan(v)
	page.Template, page.Title = "plan-upgrade", "Change your plan"
	return page, err
}

func (p *Pages) upgrade(v *Visit) (pages.View, error) {
	if v.Person.SuspendedAt != nil {
		return pages.View{Redirect: planPath, Notice: "A suspended account cannot buy a plan."}, nil
	}
	return p.leave(v, "plan.upgrade", plan.CheckoutsPath)
}

func (p *Pages) portal(v *Visit) (pages.View, error) {
	return p.leave(v, "plan.portal", plan.PortalsPath)
}

// leave takes an action that leads to a page of the payment processor.
func (p *Pages) leave(v *Visit, action, path string) (pages.View, error) {
	var page api.ProcessorPage
	if err := p.planAction(v, action, path, api.ProcessorRequest{
		Account: v.Person.Account, Email: v.Person.Email, ReturnURL: p.PublicURL + planPath,
	}, &page); err != nil {
		return pages.View{}, err
	}
	return p.leaveTo(page.URL)
}

func (p *Pages) askCancel(v *Visit) (pages.View, error) {
	state := p.payment(v)
	switch {
	case !state.Sold:
		return pages.View{}, problem.New(problem.NotFound, "Plans are not sold here.")
	case !state.Unavailable && !state.Renewing:
		return pages.View{Redirect: planPath, Notice: "There is nothing to cancel: your plan does not renew."}, nil
	}
	return pages.View{Template: "plan-cancel", Title: "Cancel " + state.Plan, Data: state}, nil
}

func (p *Pages) cancel(v *Visit) (pages.View, error) {
	now, err := p.renew(v, "cancel")
	notice := "Cancelled. You will not be charged again."
	if now.Renewing { // it was resumed in the meantime
		notice = "The plan still renews. Try again."
	}
	return pages.View{Redirect: planPath, Notice: notice}, err
}

func (p *Pages) resume(v *Visit) (pages.View, error) {
	now, err := p.renew(v, "resume")
	notice := "Resumed. The plan renews automatically again."
	if !now.Renewing { // it ended in the meantime
		notice = "There was nothing to resume."
	}
	return pages.View{Redirect: planPath, Notice: notice}, err
}

// renew takes an action that changes whether the plan renews.
func (p *Pages) renew(v *Visit, action string) (now api.Subscription, err error) {
	path := plan.SubscriptionPath(v.Person.Account) + "/" + action
	err = p.planAction(v, "plan."+action, path, struct{}{}, &now)
	return now, err
}

// processorOrigins are the only external origins that the pages redirect to. Browsers check the
// target of a form including its redirects, so the CSP of pages with such forms names them too.
var processorOrigins = []string{"https://checkout.stripe.com", "https://billing.stripe.com"}

// sandbox is the path prefix of the payment processor's stand-in, on our own host.
const sandbox = "/billing/sandbox/"

// leaveTo redirects to a page from billing. It returns an error if the page is not the payment
// processor's.
func (p *Pages) leaveTo(page string) (pages.View, error) {
	u, err := url.Parse(page)
	if err != nil || u.User != nil || u.Opaque != "" ||
		!slices.Contains(processorOrigins, u.Scheme+"://"+u.Host) && !strings.HasPrefix(page, p.PublicURL+sandbox) {
		return pages.View{}, errors.New("billing returned a URL that is not on the payment processor")
	}
	return pages.View{LeaveTo: page}, nil
}
