package httpapi_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/httpapi"
	"opportunity.internal/services/catalog/internal/listing"
)

const token = "a-token-of-at-least-thirty-two-characters"

// idle is a catalog without listings.
type idle struct{ httpapi.Curation }

func (idle) Import(context.Context, string, []listingfile.Line) (api.ImportReport, error) {
	return api.ImportReport{}, nil
}
func (idle) Publish(context.Context, string, []string, bool) (api.ImportReport, error) {
	return api.ImportReport{}, nil
}
func (idle) Withdraw(context.Context, string, []string) (api.ImportReport, error) {
	return api.ImportReport{}, nil
}
func (idle) Export(context.Context) iter.Seq2[listing.Entry, error] {
	return func(func(listing.Entry, error) bool) {}
}

// deadlines remembers what a handler asks of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestOperatorsVerbsTakeMoreTimeThanOtherRequests(t *testing.T) {
	engine := web.New(problem.Writer{})
	httpapi.API{Curation: idle{}, Now: time.Now}.Routes(engine, problem.Writer{}, peer.Tokens{Values: []string{token}}, http.NotFoundHandler())
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "import", ""}, {http.MethodGet, "export", ""},
		{http.MethodPost, "publish", `{"ids":["a"]}`}, {http.MethodPost, "withdraw", `{"ids":["a"]}`},
	} {
		r := httptest.NewRequest(c.method, "/operator/v1/listings/"+c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set(api.ActorHeader, "ann")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		engine.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", c.path, w.Body)
		require.NotZero(t, w.read, c.path)
		require.NotZero(t, w.write, c.path)
	}
}
