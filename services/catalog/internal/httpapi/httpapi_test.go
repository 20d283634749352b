package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/routetest"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/httpapi"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/internal/store/curation"
)

var schema = servicetest.NewSchema(store.Migrations)

// newEngine returns the routes on an empty database.
func newEngine(t *testing.T) *gin.Engine {
	t.Helper()
	db, engine := servicetest.OpenDatabase(t, schema.SQLite(t)), web.New(problem.Writer{})
	httpapi.API{Listings: store.New(db, time.Now), Curation: curation.New(db, time.Now), Now: time.Now}.Routes(engine,
		problem.Writer{}, http.NotFoundHandler())
	return engine
}

// deadlines records the deadlines that a handler sets on its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestOperatorRequestsExtendDeadlines(t *testing.T) {
	engine := newEngine(t)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/import", ""}, {http.MethodGet, "/export", ""}, {http.MethodGet, "", ""},
		{http.MethodPost, "/publish", `{"ids":["a"]}`}, {http.MethodPost, "/withdraw", `{"ids":["a"]}`},
	} {
		r := httptest.NewRequest(c.method, "/operator/v1/listings"+c.path, strings.NewReader(c.body))
		r.Header.Set(api.ActorHeader, "ann")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		engine.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", c.path, w.Body)
		require.NotZero(t, w.read, c.path)
		require.NotZero(t, w.write, c.path)
	}
}

func TestRoutesHaveRules(t *testing.T) {
	engine := web.New(problem.Writer{})
	httpapi.API{}.Routes(engine, problem.Writer{}, http.NotFoundHandler())
	routetest.RequireRules(t, peer.Catalog, engine.Routes())
}

func TestListRejectsInvalidParameters(t *testing.T) {
	engine := newEngine(t)
	get := func(query string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/operator/v1/listings"+query, nil)
		r.Header.Set(api.ActorHeader, "ann")
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		var e api.OperatorError
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
		return w.Code, e.Error.String()
	}
	for query, message := range map[string]string{
		"?visibility=public": "visibility: must be one of private, published, withdrawn",
		"?status=fresh":      "status: must be one of verified, unverified, stale, needs-review",
		"?category=x":        "category: must be one of online, sell, local, host",
		"?country=C1":        "country: must be two letters",
		"?text=%ff":          "text: must have at most 200 characters",
		"?after=A":           "after: must be the id of a listing",
		"?limit=1001":        "limit: ",
		"?limit=1&limit=1":   "limit: appears more than once",
		"?text=":             "text: is empty",
		"?page=2": "page: is unknown; this operation takes visibility, status, category, country, text, host, " +
			"dueBefore, holder, after, limit",
	} {
		status, body := get(query)
		require.Equal(t, http.StatusBadRequest, status, query)
		require.Contains(t, body, message, query)
	}
}
