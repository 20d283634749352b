package servicetest

import (
	"net/http"
	"net/http/httptest"

	"opportunity.internal/pkg/api"
)

// NewPeer starts a fake of a service that responds with h, and sends the id of each request back as
// services do.
func NewPeer(h http.Handler) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header[api.RequestIDHeader]; id != nil {
			w.Header()[api.RequestIDHeader] = id
		}
		h.ServeHTTP(w, r)
	}))
}
