package setback

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// readyPath is the path of the readiness, which is served while the database is set back.
const readyPath = "/readyz"

// Handler returns a handler that serves api.MarkPath, and all other requests by next unless the
// database is set back.
func (g *Guard) Handler(next http.Handler, problems problem.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.Err()
		newest, seen := g.Known(), r.URL.Query()["seen"]
		if other := func(text string) bool { return text != newest.String() }; r.URL.Path == api.MarkPath &&
			(newest == (Mark{}) || slices.ContainsFunc(seen, other)) { // Poll verifies the known one
			newest, _, err = g.Verify(r.Context(), seen...)
		}
		switch {
		case r.URL.Path == readyPath:
			next.ServeHTTP(w, r)
		case err != nil:
			if e := problem.Of(err); errors.Is(err, ErrSetBack) && strings.HasPrefix(r.URL.Path, "/operator/") {
				e.Message = "The database of this service was set back. Nothing is served or changed until you decide: see the " +
					"runbook OpportunityStoreSetBack."
				err = e
			}
			problems.Write(w, r, err)
		case r.URL.Path == api.MarkPath:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(newest.String()) // the caller disconnected
		default:
			next.ServeHTTP(w, r)
		}
	})
}
