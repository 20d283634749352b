package pages

import (
	"context"
	"strings"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// KeyRequests stores the person's key requests. Errors are problem.Errors with a message for people.
type KeyRequests interface {
	// OwnRequests returns open and recently declined requests.
	OwnRequests(ctx context.Context, accountID string) ([]account.Request, error)
	// RequestKey records a request for a valid key, and approves it if atOnce.
	RequestKey(ctx context.Context, accountID string, wanted account.RequestedKey, terms account.Acceptance, atOnce bool) (account.Request, error)
	Withdraw(ctx context.Context, accountID, request string) error
	// Collect creates the key of an approved request, once.
	Collect(ctx context.Context, accountID, request string, terms account.Acceptance, stored account.KeyRecord) (account.Key, error)
}

// keyWish is the data of the form for a key request: the submitted fields and the terms of use.
type requestForm struct {
	account.RequestedKey

	Terms terms
}

func (s *Site) askKey(v *visit) (view, error) {
	return view{Template: "key-ask", Title: "Request a key", Data: requestForm{Terms: s.terms(v)}}, nil
}

func (s *Site) requestKey(v *visit) (view, error) {
	filled := account.RequestedKey{Name: v.PostForm("name"), UseCase: v.PostForm("useCase")}
	again := view{Template: "key-ask", Title: "Request a key", Data: requestForm{filled, s.terms(v)}}
	var wanted account.RequestedKey
	var err error
	if wanted.Name, err = account.KeyName(filled.Name); err != nil {
		again.Errors = append(again.Errors, badName(filled.Name, err))
	}
	if wanted.UseCase, err = account.UseCase(filled.UseCase); err != nil {
		bad := wrong("useCase", "The use case", err)
		if strings.TrimSpace(filled.UseCase) == "" {
			bad.Message = "Tell us what you will use the data for."
		}
		again.Errors = append(again.Errors, bad)
	}
	accepted, missing := s.acceptance(v)
	if again.Errors = append(again.Errors, missing...); len(again.Errors) > 0 {
		return again, nil
	}
	created, err := s.KeyRequests.RequestKey(v.Request.Context(), v.Person.Account, wanted, accepted, s.AutoApprove)
	switch {
	case problem.Of(err).Code == problem.InvalidParameter:
		again.Errors = []formError{{Message: problem.Of(err).Message}}
		return again, nil
	case err != nil:
		return view{}, err
	case created.State == account.Approved:
		return view{Redirect: collectPath(created.ID)}, nil
	}
	return view{Redirect: "/account/keys", Notice: "Your request was sent. You get an email when it is approved or declined."}, nil
}

func collectPath(request string) string { return "/account/keys/requests/" + request + "/collect" }

// ownRequest returns the request in the URL if it is open or recently declined.
func (s *Site) ownRequest(v *visit) (account.Request, error) {
	requests, err := s.KeyRequests.OwnRequests(v.Request.Context(), v.Person.Account)
	if err != nil {
		return account.Request{}, err
	}
	for _, r := range requests {
		if r.ID == v.Param("request") {
			return r, nil
		}
	}
	return account.Request{}, account.RequestNotFound()
}

// collection is the data of the page that confirms collecting a key.
type collection struct {
	account.Request

	Terms terms
}

func (s *Site) askCollect(v *visit) (view, error) {
	r, err := s.ownRequest(v)
	if err == nil && r.State != account.Approved {
		err = account.NotOpen(r.State)
	}
	return view{Template: "key-collect", Title: "Get your key", Data: collection{r, s.terms(v)}}, err
}

func (s *Site) collectKey(v *visit) (view, error) {
	if err := account.KnownRequest(v.Param("request")); err != nil {
		return view{}, err
	}
	accepted, missing := s.acceptance(v)
	if len(missing) > 0 {
		again, err := s.askCollect(v)
		again.Errors = missing
		return again, err
	}
	secret := apikey.Generate(apikey.Live)
	key, err := s.KeyRequests.Collect(v.Request.Context(), v.Person.Account, v.Param("request"), accepted, account.NewKeyRecord(secret, s.Peppers))
	return view{Template: "key-new", Title: "Your key", Data: newKey{Key: key, Secret: secret.Reveal()}}, err
}

func (s *Site) withdrawRequest(v *visit) (view, error) {
	if err := account.KnownRequest(v.Param("request")); err != nil {
		return view{}, err
	}
	err := s.KeyRequests.Withdraw(v.Request.Context(), v.Person.Account, v.Param("request"))
	return view{Redirect: "/account/keys", Notice: "The request was withdrawn."}, err
}
