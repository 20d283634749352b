package desk_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

const (
	attack = `"><img src=x onerror=alert(1)><script>alert(1)</script>`
	script = "javascript:alert(1)"
)

// hostile returns a T with the attack in every text, an entry in every list and a value at every
// pointer.
func hostile[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		text, _ := json.Marshal(attack)
		v.SetBytes(text)
	case v.Kind() == reflect.String:
		v.SetString(attack)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				fill(f)
			}
		}
	}
}

// Text of a listing, a source or a note cannot put markup or a script into the desk.
func TestStoredMarkupIsShownAsText(t *testing.T) {
	line, err := json.Marshal(hostile[listingfile.Line]())
	require.NoError(t, err)
	detail, report := hostile[api.ListingDetail](), hostile[api.EditReport]()
	detail.Listing = line
	report.Applied, report.Problems, report.Current = false, nil, &detail
	s, b := reviewing(t, func(s *api.ReviewSheet) {
		*s = hostile[api.ReviewSheet]()
		s.Record.Company.Website, s.Record.ApplicationURL, s.Record.Sources[0].URL = script, script, script+"//"+attack
		s.Visibility, s.OpinionFacts = "private", nil // every fact is on the sheet
		s.Evidence.Quotes[0].Fact, s.Suggestions[0] = "pay", api.Quote{Fact: "remote", SourceURL: script, Exact: attack}
		s.Readings[0].Quote = s.Evidence.Quotes[0]
	})
	detail.Record.Company.Website, detail.Record.ApplicationURL = script, script
	for at, response := range map[string]any{
		lease: hostile[api.Lease](), "GET /reviews/queue": hostile[api.ReviewQueue](),
		"GET /reviews/second-opinions": hostile[api.OpinionList](), "GET /records/maple": detail,
		"GET /listings": hostile[api.ListingList](), "GET /reviews/candidates": hostile[api.CandidateList](),
		"GET /changes": hostile[api.ListingActList](), "GET /events": hostile[api.EventActList](),
		"GET /audit": hostile[api.AuditList](), "POST /listings/publish": hostile[api.ImportReport](),
		"GET /reviews/withdrawals": hostile[api.WithdrawalList](), "GET /keys/requests": hostile[api.KeyRequestList](),
		"GET /accounts": hostile[api.AccountList](), "GET /accounts/a": hostile[api.AccountDetail](),
		"GET /records/maple/pages": hostile[api.PageTexts](), "PUT /records/maple": report,
	} {
		s.api.respond(at, response)
	}
	shows := func(page response) {
		t.Helper()
		for _, markup := range []string{"<img src=x", "<script>", `href="javascript:`} {
			require.NotContains(t, page.body, markup)
		}
		page.requireAll(t, "&lt;script&gt;")
	}
	for _, path := range []string{"/records/maple", "/records/maple/edit", "/records/maple/publish", "/audit", "/records",
		"/candidates", "/reviews/maple", "/queue", "/withdrawals", "/requests", "/accounts", "/accounts/a",
		"/records/maple/pages", "/queue?text=" + url.QueryEscape(attack)} {
		shows(b.get(path))
	}
	input := b.get("/records/maple/edit").input(t, "edit")
	shows(b.post("/records/maple/edit", input))
	input.Set("base", strings.Replace(input.Get("base"), "onerror", "onload", 1))
	detail.Version = "another"
	s.api.respondWith("PUT /records/maple", http.StatusPreconditionFailed, report)
	shows(b.post("/records/maple/edit", input))
	preview := hostile[api.ImportReport]()
	preview.Rejected = nil
	s.api.respond(imports, preview)
	shows(b.uploaded("<script>.jsonl", "{}"))
}
