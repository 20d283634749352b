package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

// readJSON decodes the body of a request without parameters into out. It returns the operator's
// name. what describes the expected body.
func readJSON(g *gin.Context, out any, what string) (actor string, err error) {
	if actor, err = web.Actor(g); err != nil {
		return "", err
	}
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return "", err
	}
	return actor, decode(g, out, what)
}

func decode(g *gin.Context, out any, what string) error {
	err := web.Decode(g, out, maxRequest)
	if refused := new(problem.Error); err == nil || errors.As(err, &refused) {
		return err
	}
	return problem.New(problem.InvalidParameter, "The body must be JSON: %s.", what).Because(err)
}

// takeLease takes or renews the lease of a listing. It responds with 409 and the lease of another
// holder who keeps it.
func (a API) takeLease(g *gin.Context) (web.Reply, error) {
	var want api.LeaseRequest
	actor, err := readJSON(g, &want, `{"takeOver": false}`)
	if err != nil {
		return web.Reply{}, err
	}
	lease, taken, err := a.Desk.TakeLease(g.Request.Context(), g.Param("id"), actor, want.TakeOver)
	if !taken {
		return web.Reply{Status: http.StatusConflict, JSON: lease}, err
	}
	return web.Reply{JSON: lease}, err
}

func (a API) endLease(g *gin.Context, actor string) (web.Reply, error) {
	return web.Reply{Status: http.StatusNoContent}, a.Desk.EndLease(g.Request.Context(), g.Param("id"), actor)
}

func (a API) saveDraft(g *gin.Context, actor string) (web.Reply, error) {
	content, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, api.MaxDraft))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) || err == nil && jsonlines.Check(content) != nil {
		return web.Reply{}, problem.New(problem.InvalidParameter, "A draft must be JSON of at most %d bytes.",
			api.MaxDraft)
	}
	if err != nil {
		return web.Reply{}, problem.New(problem.InvalidParameter,
			"The draft could not be read to its end.").Because(err)
	}
	draft, err := a.Desk.SaveDraft(g.Request.Context(), g.Param("id"), actor, content)
	return web.Reply{JSON: draft}, err
}

func (a API) deleteDraft(g *gin.Context, actor string) (web.Reply, error) {
	return web.Reply{Status: http.StatusNoContent}, a.Desk.DeleteDraft(g.Request.Context(), g.Param("id"), actor)
}

func (a API) skip(g *gin.Context) (web.Reply, error) {
	var want api.SkipRequest
	actor, err := readJSON(g, &want, `{"reason": "...", "until": "2026-11-24T09:00:00Z"}`)
	if err != nil {
		return web.Reply{}, err
	}
	now := a.Now()
	if want.Reason, err = api.Lines(want.Reason, api.MaxText); err != nil {
		return web.Reply{}, problem.Invalid("reason", err.Error())
	}
	if !want.Until.After(now) || want.Until.After(now.Add(api.MaxSkip)) {
		return web.Reply{}, problem.Invalid("until",
			fmt.Sprintf("must be in the future, at most %d days from now", int(api.MaxSkip.Hours()/24)))
	}
	skip, err := a.Desk.Skip(g.Request.Context(), g.Param("id"), actor, want)
	return web.Reply{JSON: skip}, err
}

func (a API) endSkip(g *gin.Context, _ string) (web.Reply, error) {
	return web.Reply{Status: http.StatusNoContent}, a.Desk.EndSkip(g.Request.Context(), g.Param("id"))
}

func (a API) open(g *gin.Context) (web.Reply, error) {
	var in api.OpeningRequest
	actor, err := readJSON(g, &in, `{"sourceUrl": "https://...", "lastEventId": "..."}`)
	if err != nil {
		return web.Reply{}, err
	}
	if !api.ValidURL(in.SourceURL) {
		return web.Reply{}, problem.Invalid("sourceUrl", "must be an http or https URL")
	}
	return web.Reply{Status: http.StatusNoContent}, a.Desk.Open(g.Request.Context(), g.Param("id"), actor, in)
}

// Decisions about a withdrawal.
const (
	proposed = "withdrawal-proposed"
	declined = "withdrawal-declined"
)

// decide returns the handler of a decision about a withdrawal.
func (a API) decide(decision string) func(*gin.Context) (web.Reply, error) {
	return func(g *gin.Context) (web.Reply, error) {
		var in api.WithdrawalRequest
		actor, err := readJSON(g, &in, `{"reason": "..."}`)
		if err != nil {
			return web.Reply{}, err
		}
		if in.Reason != "" || decision == proposed {
			if in.Reason, err = api.Lines(in.Reason, api.MaxText); err != nil {
				return web.Reply{}, problem.Invalid("reason", err.Error())
			}
		}
		return web.Reply{Status: http.StatusNoContent},
			a.Desk.Decide(g.Request.Context(), g.Param("id"), actor, decision, in.Reason)
	}
}

func (a API) withdrawals(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	list, err := a.Desk.Withdrawals(g.Request.Context())
	return web.Reply{JSON: list}, err
}
