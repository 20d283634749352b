package operator

import (
	"net/http"
	"slices"

	"opportunity.internal/pkg/api"
)

// Names of the services in Owners.
const (
	Catalog   = "catalog"
	History   = "history"
	Authquota = "authquota"
	Billing   = "billing"
	gateway   = "gateway" // answered here
)

// route is an endpoint of the operator API with its service and the roles that can use it. RoleAdmin can use every endpoint.
type route struct {
	method, path string // path below Prefix, in the syntax of http.ServeMux
	service      string
	roles        []api.Role
}

var (
	everyone = api.Roles
	curators = []api.Role{api.RoleCurator, api.RolePublisher}
	publish  = []api.Role{api.RolePublisher}
	support  = []api.Role{api.RoleSupport}
	admins   = []api.Role(nil)
)

// routes lists every endpoint of the operator API.
var routes = []route{
	{"GET", "me", gateway, everyone},

	{"GET", "catalog", Catalog, curators},
	{"GET", "listings", Catalog, curators},
	{"GET", "records/{id}", Catalog, curators},
	{"PUT", "records/{id}", Catalog, curators},
	{"GET", "changes", Catalog, curators},
	{"GET", "listings/export", Catalog, curators},
	{"POST", "listings/import", Catalog, publish},
	{"POST", "listings/publish", Catalog, publish},
	{"POST", "listings/withdraw", Catalog, publish},
	{"GET", "reviews/due", Catalog, curators},
	{"GET", "reviews/candidates", Catalog, curators},
	{"GET", "reviews/freshness", Catalog, curators},
	{"GET", "reviews/queue", Catalog, curators},
	{"GET", "reviews/records/{id}", Catalog, curators},
	{"POST", "reviews/records/{id}", Catalog, curators},
	{"POST", "reviews/records/{id}/undo", Catalog, curators},
	{"PUT", "reviews/records/{id}/lease", Catalog, curators},
	{"DELETE", "reviews/records/{id}/lease", Catalog, curators},
	{"PUT", "reviews/records/{id}/draft", Catalog, curators},
	{"DELETE", "reviews/records/{id}/draft", Catalog, curators},
	{"PUT", "reviews/records/{id}/skip", Catalog, curators},
	{"DELETE", "reviews/records/{id}/skip", Catalog, curators},

	{"GET", "reviews/second-opinions", History, curators},
	{"POST", "reviews/quotes", History, curators},
	{"GET", "history/{id}", History, curators},
	{"GET", "records/{id}/pages", History, curators},
	{"GET", "events", History, curators},
	{"POST", "events/append", History, publish},

	{"GET", "keys", Authquota, support},
	{"POST", "keys", Authquota, support},
	{"POST", "keys/import", Authquota, support},
	{"GET", "keys/requests", Authquota, support},
	{"POST", "keys/requests/{id}/approve", Authquota, support},
	{"POST", "keys/requests/{id}/decline", Authquota, support},
	{"POST", "keys/{id}/revoke", Authquota, support},
	{"GET", "accounts", Authquota, support},
	{"GET", "accounts/{id}", Authquota, support},
	{"POST", "accounts/{id}/suspend", Authquota, support},
	{"POST", "accounts/{id}/resume", Authquota, support},
	{"POST", "accounts/{id}/grant", Authquota, support},
	{"GET", "audit", Authquota, support},
	{"GET", "usage", Authquota, support},

	{"POST", "announcements", Authquota, admins},

	{"POST", "billing/reconcile", Billing, admins},
}

// allows reports whether a holder of role can use the endpoint.
func (e route) allows(role api.Role) bool {
	return role == api.RoleAdmin || slices.Contains(e.roles, role)
}

// takesFile reports whether the endpoint takes a file of any size.
func (e route) takesFile() bool { return e.path == "listings/import" || e.path == "events/append" }

// table finds routes by method and path.
type table struct {
	mux    *http.ServeMux
	routes map[string]route // by pattern
}

// newTable returns a table of the routes to the services in owners.
func newTable(owners Owners) table {
	t := table{http.NewServeMux(), map[string]route{}}
	for _, e := range routes {
		if owners[e.service].URL != nil || e.service == gateway {
			pattern := e.method + " " + Prefix + e.path
			t.mux.Handle(pattern, http.NotFoundHandler()) // only the pattern is used
			t.routes[pattern] = e
		}
	}
	return t
}

// find returns the route of the request. If only other methods have its path, it returns the route of one of them, and allowed is false.
func (t table) find(r *http.Request) (e route, known, allowed bool) {
	other := *r
	for _, method := range []string{r.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other.Method = method
		_, pattern := t.mux.Handler(&other)
		if e, known = t.routes[pattern]; known {
			return e, true, method == r.Method
		}
	}
	return route{}, false, false
}
