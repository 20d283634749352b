package desk

import (
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// route is a page or a form. The gateway enforces roles with every call; the desk only hides what a
// role cannot use.
type route struct {
	pattern string
	open    bool  // needs no session
	maxBody int64 // in bytes; 0 means maxForm
	handle  func(*Desk, *visit) (view, error)
}

func routes() []route {
	all := []route{
		{pattern: "GET /{$}", handle: (*Desk).home},
		{pattern: "GET /sign-in", open: true, handle: (*Desk).showSignIn},
		{pattern: "POST /sign-in", open: true, handle: (*Desk).signInWithToken},
		{pattern: "GET /sign-in/once", open: true, handle: (*Desk).showOnce},
		{pattern: "POST /sign-in/once", open: true, handle: (*Desk).signInOnce},
		{pattern: "POST /sign-out", handle: (*Desk).signOut},
		{pattern: "GET /sessions", handle: (*Desk).showSessions},
		{pattern: "POST /sessions/{id}/end", handle: (*Desk).endSession},
		{pattern: "GET /help", handle: (*Desk).help},
		{pattern: "POST /help/keys", handle: (*Desk).setKeys},

		{pattern: "GET /queue", handle: (*Desk).queue},
		{pattern: "GET /next", handle: func(_ *Desk, v *visit) (view, error) { return next(v) }},
		{pattern: "GET /reviews/{id}", handle: (*Desk).showReview},
		{pattern: "POST /reviews/{id}", handle: (*Desk).submitReview},
		{pattern: "GET /reviews/{id}/open", handle: (*Desk).openPage},
		{pattern: "POST /reviews/{id}/summary", handle: (*Desk).summarize},
		{pattern: "POST /reviews/{id}/draft", handle: (*Desk).saveDraft},
		{pattern: "POST /reviews/{id}/discard", handle: (*Desk).discardDraft},
		{pattern: "POST /reviews/{id}/lease", handle: (*Desk).renewLease},
		{pattern: "POST /reviews/{id}/take-over", handle: (*Desk).takeOver},
		{pattern: "POST /reviews/{id}/skip", handle: (*Desk).skip},
		{pattern: "POST /reviews/{id}/undo", handle: (*Desk).undo},

		{pattern: "GET /candidates", handle: (*Desk).candidates},
		{pattern: "GET /candidates/next", handle: func(_ *Desk, v *visit) (view, error) { return nextCandidate(v) }},
		{pattern: "GET /candidates/publish", handle: (*Desk).askPublishSeveral},
		{pattern: "POST /candidates/publish", handle: (*Desk).publishSeveral},
		{pattern: "GET /freshness", handle: (*Desk).freshness},
		{pattern: "GET /records", handle: (*Desk).records},
		{pattern: "GET /records/{id}", handle: (*Desk).record},
		{pattern: "GET /records/{id}/edit", handle: (*Desk).showEdit},
		{pattern: "POST /records/{id}/edit", handle: (*Desk).edit},
		{pattern: "GET /records/{id}/pages", handle: (*Desk).pageTexts},
		{pattern: "POST /records/{id}/read", handle: (*Desk).readPages},
		{pattern: "GET /withdrawals", handle: (*Desk).withdrawals},
		{pattern: "GET /import", handle: (*Desk).showImport},
		{pattern: "POST /import", maxBody: maxFile, handle: (*Desk).previewImport},
		{pattern: "POST /import/confirm", handle: (*Desk).importFile},

		{pattern: "GET /requests", handle: (*Desk).keyRequests},
		{pattern: "GET /accounts", handle: (*Desk).accounts},
		{pattern: "GET /accounts/{id}", handle: (*Desk).account},
		{pattern: "GET /usage", handle: (*Desk).usage},
		{pattern: "GET /audit", handle: (*Desk).audit},
		{pattern: "GET /audit.csv", handle: (*Desk).auditCSV},
	}
	for name, a := range actions() {
		at := " /" + strings.Replace(name, "/", "/{id}/", 1)
		all = append(all, route{pattern: "GET" + at, handle: a.ask}, route{pattern: "POST" + at, handle: a.act})
	}
	return all
}

// tab is an entry of the navigation.
type tab struct {
	Path, Label string
	roles       []api.Role
}

var (
	curators   = []api.Role{api.RoleAdmin, api.RolePublisher, api.RoleCurator}
	publishers = []api.Role{api.RoleAdmin, api.RolePublisher}
	supporters = []api.Role{api.RoleAdmin, api.RoleSupport}
)

func tabs(role string) (allowed []tab) {
	for _, t := range []tab{
		{"/queue", "Queue", curators},
		{"/candidates", "Candidates", curators},
		{"/records", "Records", curators},
		{"/freshness", "Freshness", curators},
		{"/withdrawals", "Withdrawals", publishers},
		{"/import", "Import", publishers},
		{"/requests", "Key requests", supporters},
		{"/accounts", "Accounts", supporters},
		{"/usage", "Usage", supporters},
		{"/audit", "Audit", api.Roles},
	} {
		if slices.Contains(t.roles, api.Role(role)) {
			allowed = append(allowed, t)
		}
	}
	return allowed
}

// home shows the first page that the role can use.
func (d *Desk) home(v *visit) (view, error) {
	for _, t := range tabs(v.Session.Role) {
		return view{Redirect: t.Path}, nil
	}
	return view{Redirect: "/help"}, nil
}

func (d *Desk) help(*visit) (view, error) {
	return view{Template: "help", Title: "Keyboard shortcuts"}, nil
}
