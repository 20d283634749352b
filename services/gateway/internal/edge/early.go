package edge

import (
	"errors"
	"net/http"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
)

// forwarded is the result of a request to a service. Without a request, both fields are zero.
type forwarded struct {
	response proxy.Response
	err      error
}

// errDiscarded is the error of a request to a service whose response is not used.
var errDiscarded = errors.New("response discarded: the call was rejected or its account changed")

// admitEarly is like admit, but the service already works on the call while the limiter decides. It returns the result of the service if
// the call was admitted for the principal that the service was sent, and nil otherwise.
//
// So the client waits for the slower of the two instead of both.
func (e *Edge) admitEarly(r *http.Request, to route.Route, key authn.Key, c *call) (*forwarded, error) {
	p, decided, rejected := c.caller, false, error(nil)
	decide := func() error {
		if !decided {
			decided, rejected = true, e.admit(r, key, c)
		}
		if rejected != nil || c.charge.Verdict != admission.Admitted || c.caller != p {
			return errDiscarded
		}
		return nil
	}
	var early forwarded
	early.response, early.err = e.forward(peer.WithMeanwhile(r.Context(), decide), r, to, p)
	if decide() == nil { // the transport has called it, unless it is that of a test
		return &early, nil
	}
	if early.err == nil {
		early.response.Body.Close()
	}
	return nil, rejected
}
