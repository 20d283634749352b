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

// newTable returns the routes of the services by the pattern of their path, then by method, and a
// mux that finds the pattern of a request.
func newTable(owners Owners) (map[string]map[string]route, *http.ServeMux) {
	table, patterns := map[string]map[string]route{}, http.NewServeMux()
	for _, e := range routes {
		if owners[e.service] == nil && e.service != peer.Gateway {
			continue
		}
		pattern := Prefix + e.path
		if table[pattern] == nil {
			table[pattern] = map[string]route{}
			patterns.Handle(pattern, http.NotFoundHandler())
		}
		table[pattern][e.method] = e
	}
	return table, patterns
}
