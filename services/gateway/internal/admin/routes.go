package admin

import (
	"net/http"
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// route is an endpoint of the operator API with its service and the roles that can use it.
// RoleAdmin can use every endpoint.
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

var routes = []route{
	{"GET", "me", peer.Gateway, everyone},

	{"GET", "catalog", peer.Catalog, curators},
	{"GET", "listings", peer.Catalog, curators},
	{"GET", "records/{id}", peer.Catalog, curators},
	{"PUT", "records/{id}", peer.Catalog, curators},
	{"GET", "changes", peer.Catalog, curators},
	{"GET", "listings/export", peer.Catalog, curators},
	{"POST", "listings/import", peer.Catalog, publish},
	{"POST", "listings/publish", peer.Catalog, publish},
	{"POST", "listings/withdraw", peer.Catalog, publish},
	{"GET", "reviews/due", peer.Catalog, curators},
	{"GET", "reviews/candidates", peer.Catalog, curators},
	{"GET", "reviews/freshness", peer.Catalog, curators},
	{"GET", "reviews/queue", peer.Catalog, curators},
	{"GET", "reviews/records/{id}", peer.Catalog, curators},
	{"POST", "reviews/records/{id}", peer.Catalog, curators},
	{"POST", "reviews/records/{id}/undo", peer.Catalog, curators},
	{"PUT", "reviews/records/{id}/opened", peer.Catalog, curators},
	{"GET", "reviews/withdrawals", peer.Catalog, curators},
	{"POST", "reviews/records/{id}/propose-withdrawal", peer.Catalog, curators},
	{"POST", "reviews/records/{id}/decline-withdrawal", peer.Catalog, publish},
	{"PUT", "reviews/records/{id}/lease", peer.Catalog, curators},
	{"DELETE", "reviews/records/{id}/lease", peer.Catalog, curators},
	{"PUT", "reviews/records/{id}/draft", peer.Catalog, curators},
	{"DELETE", "reviews/records/{id}/draft", peer.Catalog, curators},
	{"PUT", "reviews/records/{id}/skip", peer.Catalog, curators},
	{"DELETE", "reviews/records/{id}/skip", peer.Catalog, curators},

	{"GET", "reviews/second-opinions", peer.History, curators},
	{"POST", "reviews/quotes", peer.History, curators},
	{"GET", "history/{id}", peer.History, curators},
	{"GET", "records/{id}/pages", peer.History, curators},
	{"POST", "records/{id}/read", peer.History, curators},
	{"GET", "events", peer.History, curators},
	{"POST", "events/append", peer.History, publish},

	{"GET", "keys", peer.Authquota, support},
	{"POST", "keys", peer.Authquota, support},
	{"POST", "keys/import", peer.Authquota, support},
	{"GET", "keys/requests", peer.Authquota, support},
	{"POST", "keys/requests/{id}/approve", peer.Authquota, support},
	{"POST", "keys/requests/{id}/decline", peer.Authquota, support},
	{"POST", "keys/{id}/revoke", peer.Authquota, support},
	{"GET", "accounts", peer.Authquota, support},
	{"GET", "accounts/{id}", peer.Authquota, support},
	{"POST", "accounts/{id}/suspend", peer.Authquota, support},
	{"POST", "accounts/{id}/resume", peer.Authquota, support},
	{"POST", "accounts/{id}/grant", peer.Authquota, support},
	{"POST", "accounts/{id}/reset-authenticator", peer.Authquota, support},
	{"GET", "audit", peer.Authquota, support},
	{"GET", "usage", peer.Authquota, support},

	{"POST", "announcements", peer.Authquota, admins},

	{"POST", "billing/reconcile", peer.Billing, admins},
}

func (e route) allows(role api.Role) bool {
	return role == api.RoleAdmin || slices.Contains(e.roles, role)
}

func (e route) takesFile() bool { return e.path == "listings/import" || e.path == "events/append" }

type table struct {
	mux    *http.ServeMux
	routes map[string]route // by pattern
}

func newTable(owners Owners) table {
	t := table{http.NewServeMux(), map[string]route{}}
	for _, e := range routes {
		if owners[e.service] != nil || e.service == peer.Gateway {
			pattern := e.method + " " + Prefix + e.path
			t.mux.Handle(pattern, http.NotFoundHandler()) // only the pattern is used
			t.routes[pattern] = e
		}
	}
	return t
}

// find returns the route of the request. If only other methods have its path, it returns the route
// of one of them, and allowed is false.
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
