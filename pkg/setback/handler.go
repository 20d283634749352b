package setback

import (
	"context"
	"encoding/json"
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
		err := g.Available()
		newest := Mark{}
		if r.URL.Path == api.MarkPath {
			newest, err = g.newest(r.Context(), r.URL.Query()["seen"])
		}
		switch {
		case r.URL.Path == readyPath:
			next.ServeHTTP(w, r)
		case err != nil:
			if e := problem.Of(err); g.Err() != nil && strings.HasPrefix(r.URL.Path, "/operator/") {
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

// newest returns the newest mark that this process knows, and verifies those that it does not know:
// Poll verifies its own.
func (g *Guard) newest(ctx context.Context, seen []string) (Mark, error) {
	known := g.Known()
	if known != (Mark{}) && !slices.ContainsFunc(seen, func(text string) bool { return text != known.String() }) {
		return known, g.Available()
	}
	newest, _, err := g.Verify(ctx, seen...)
	return newest, err
}
