package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/store"
)

var noContent = web.Reply{Status: http.StatusNoContent}

func end(act func(ctx context.Context, id, actor string) error) func(request) (web.Reply, error) {
	return func(r request) (web.Reply, error) { return noContent, act(r.context(), r.id(), r.actor) }
}

// takeLease takes or renews the lease of a listing. It responds with 409 and the lease of another
// holder who keeps it.
func (a API) takeLease(r request, in api.LeaseRequest) (web.Reply, error) {
	lease, taken, err := a.Curation.TakeLease(r.context(), r.id(), r.actor, in.TakeOver)
	if !taken {
		return web.Reply{Status: http.StatusConflict, JSON: lease}, err
	}
	return web.Reply{JSON: lease}, err
}

func (a API) saveDraft(r request) (web.Reply, error) {
	var content json.RawMessage
	if err := web.Decode(r.Context, &content, api.MaxDraft); err != nil {
		return web.Reply{}, err
	}
	if len(content) == 0 {
		return web.Reply{}, problem.New(problem.InvalidParameter, "The body must be the draft as JSON.")
	}
	return web.JSON(a.Curation.SaveDraft(r.context(), r.id(), r.actor, content))
}

func (a API) skip(r request, in api.SkipRequest) (_ web.Reply, err error) {
	now := a.Now()
	if in.Reason, err = api.Lines(in.Reason, api.MaxText); err != nil {
		return web.Reply{}, problem.Invalid("reason", err.Error())
	}
	if !in.Until.After(now) || in.Until.After(now.Add(api.MaxSkip)) {
		return web.Reply{}, problem.Invalid("until",
			fmt.Sprintf("must be in the future, at most %d days from now", int(api.MaxSkip.Hours()/24)))
	}
	return web.JSON(a.Curation.Skip(r.context(), r.id(), r.actor, in))
}

func (a API) open(r request, in api.OpeningRequest) (web.Reply, error) {
	if !api.ValidURL(in.SourceURL) {
		return web.Reply{}, problem.Invalid("sourceUrl", "must be an http or https URL")
	}
	return noContent, a.Curation.Open(r.context(), r.id(), r.actor, in)
}

func (a API) propose(r request, in api.WithdrawalRequest) (_ web.Reply, err error) {
	if in.Reason, err = api.Lines(in.Reason, api.MaxText); err != nil {
		return web.Reply{}, problem.Invalid("reason", err.Error())
	}
	return noContent, a.Listings.Decide(r.context(), r.id(), r.actor, store.Proposed, in.Reason)
}

func (a API) decline(r request, in api.WithdrawalRequest) (_ web.Reply, err error) {
	if in.Reason, err = optionalReason(in.Reason); err != nil {
		return web.Reply{}, err
	}
	return noContent, a.Listings.Decide(r.context(), r.id(), r.actor, store.Declined, in.Reason)
}

func (a API) withdrawals(r request) (web.Reply, error) {
	return web.JSON(a.Listings.Withdrawals(r.context()))
}
