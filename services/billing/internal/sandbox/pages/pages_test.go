package pages_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/sandbox/pages"
)

const (
	public   = "https://api.example"
	back     = public + "/account/plan"
	checkout = "/billing/sandbox/checkout/abc"
	portal   = "/billing/sandbox/portal/abc"
)

// till is a sandbox that does as it is told and notes what it was asked for.
type till struct {
	shown  sandbox.Session
	refuse error
	asked  []any
}

func (p *till) Session(_ context.Context, kind sandbox.Kind, id string) (sandbox.Session, error) {
	p.shown.Kind, p.shown.ID = kind, id
	if id != "abc" {
		return sandbox.Session{}, problem.New(problem.NotFound, "There is no such page.")
	}
	return p.shown, nil
}

func (p *till) Pay(_ context.Context, id string, declines bool) error {
	p.asked = append(p.asked, id, declines)
	return p.refuse
}

func (p *till) SetCard(_ context.Context, id string, declines bool) error {
	p.asked = append(p.asked, id, declines)
	return p.refuse
}

func (p *till) Do(_ context.Context, id, subscription string, act sandbox.Act, days int) error {
	p.asked = append(p.asked, id, subscription, act, days)
	return p.refuse
}

func (p *till) send(t *testing.T, log io.Writer, method, path, form string, header ...string) *http.Response {
	t.Helper()
	site, err := pages.New(p, public, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), method, "http://10.0.0.1"+path, strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", public)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	answer := w.Result()
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func text(t *testing.T, answer *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(body)
}

func subscribed(status sandbox.Status) sandbox.Subscription {
	now := time.Date(2026, 2, 3, 4, 5, 6, 700_000_000, time.UTC)
	return sandbox.Subscription{
		ID: "sub_1", Status: status, PeriodEnd: now,
		Invoices: []sandbox.Invoice{{ID: "in_1", USD: 29, From: now.AddDate(0, -1, 0), Until: now, Paid: true}},
	}
}

func TestBuying(t *testing.T) {
	p := &till{shown: sandbox.Session{ReturnURL: back, Plan: "Business", USD: 29, Account: "acc_<1>"}}
	answer := p.send(t, io.Discard, http.MethodGet, checkout, "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	page := text(t, answer)
	for _, words := range []string{"This is a sandbox.", "Business", "29 USD a month", "acc_&lt;1&gt;", `href="` + back + `?checkout=left"`} {
		require.Contains(t, page, words)
	}

	answer = p.send(t, io.Discard, http.MethodPost, checkout, "card=works")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, back+"?checkout=done", answer.Header.Get("Location"))
	require.Equal(t, []any{"abc", false}, p.asked)

	answer = p.send(t, io.Discard, http.MethodPost, checkout, "card=declined")
	require.Equal(t, checkout+"?declined", answer.Header.Get("Location"))
	incomplete := subscribed(sandbox.Incomplete)
	p.shown.Bought = &incomplete
	answer = p.send(t, io.Discard, http.MethodGet, checkout+"?declined", "")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, text(t, answer), "Nothing was paid.")

	active := subscribed(sandbox.Active)
	p.shown.Bought = &active
	page = text(t, p.send(t, io.Discard, http.MethodGet, checkout+"?declined", ""))
	require.Contains(t, page, "bought already")
	require.NotContains(t, page, "<form")
}

func TestThePortal(t *testing.T) {
	p := &till{shown: sandbox.Session{ReturnURL: back}}
	require.Contains(t, text(t, p.send(t, io.Discard, http.MethodGet, portal, "")), "Nothing was bought yet.")
	p.shown.Subscriptions = []sandbox.Subscription{subscribed(sandbox.Active)}
	page := text(t, p.send(t, io.Discard, http.MethodGet, portal, ""))
	require.Contains(t, page, `<time datetime="2026-02-03T04:05:06.7Z">3 February 2026, 04:05:06 UTC</time>`)
	require.Contains(t, page, "Cancel at the period&#39;s end")

	for form, asked := range map[string][]any{
		"act=card-declines":                           {"abc", true},
		"act=card-works":                              {"abc", false},
		"act=advance&subscription=sub_1&days=+12":     {"abc", "sub_1", sandbox.Advance, 12},
		"act=refund&subscription=sub_1":               {"abc", "sub_1", sandbox.Refund, 0},
		"act=advance&subscription=sub_1&days=a+while": {"abc", "sub_1", sandbox.Advance, 0},
	} {
		p.asked = nil
		answer := p.send(t, io.Discard, http.MethodPost, portal, form)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode, form)
		require.Equal(t, portal, answer.Header.Get("Location"))
		require.Equal(t, asked, p.asked)
	}
	p.refuse = problem.New(problem.InvalidParameter, "The clock moves by 1 to 9 days.")
	answer := p.send(t, io.Discard, http.MethodPost, portal, "act=advance&subscription=sub_1&days=10")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	page = text(t, answer)
	require.Contains(t, page, "The clock moves by 1 to 9 days.")
	require.Contains(t, page, "Active")
}

// Every state has words, and no button that could only fail.
func TestStatesInWords(t *testing.T) {
	cancelled := subscribed(sandbox.Active)
	cancelled.CancelAtPeriodEnd = true
	refunded := subscribed(sandbox.Canceled)
	refunded.Invoices[0].Refunded = true
	disputed := subscribed(sandbox.PastDue)
	disputed.Invoices[0].Dispute = sandbox.OpenDispute
	unpaid := subscribed(sandbox.Incomplete)
	unpaid.Invoices[0].Paid = false
	won := subscribed(sandbox.Active)
	won.Invoices[0].Dispute = sandbox.WonDispute
	for words, s := range map[string]sandbox.Subscription{
		"it ends with the period": cancelled, "Refunded": refunded, "Paid, disputed": disputed, "Not paid": unpaid, "Paid, dispute won": won,
	} {
		p := &till{shown: sandbox.Session{ReturnURL: back, Subscriptions: []sandbox.Subscription{s}, Declines: true}}
		page := text(t, p.send(t, io.Discard, http.MethodGet, portal, ""))
		require.Contains(t, page, words)
		require.Contains(t, page, "is <strong>declined</strong>")
		require.Equal(t, s.Status == sandbox.Canceled, !strings.Contains(page, "Move its clock"))
		in := s.Invoices[0]
		require.Equal(t, in.Paid && !in.Refunded && in.Dispute != sandbox.OpenDispute, strings.Contains(page, ">Refund the last payment<"))
		require.Equal(t, in.Dispute == sandbox.OpenDispute, strings.Contains(page, ">Win the dispute<"))
		require.Equal(t, s.CancelAtPeriodEnd, strings.Contains(page, ">Resume<"))
	}
}

func TestFormsFromElsewhereAreRefused(t *testing.T) {
	for _, header := range [][]string{
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "same-site", "Origin", "https://other.api.example"},
	} {
		p := &till{}
		require.Equal(t, http.StatusForbidden, p.send(t, io.Discard, http.MethodPost, checkout, "card=works", header...).StatusCode, header)
		require.Empty(t, p.asked)
	}
	p := &till{shown: sandbox.Session{ReturnURL: back}}
	require.Equal(t, http.StatusSeeOther,
		p.send(t, io.Discard, http.MethodPost, checkout, "card=works", "Sec-Fetch-Site", "same-origin").StatusCode)
	require.Equal(t, http.StatusBadRequest, p.send(t, io.Discard, http.MethodPost, checkout, "card="+strings.Repeat("x", 5000)).StatusCode)
}

func TestHeadersAndFailures(t *testing.T) {
	p := &till{shown: sandbox.Session{ReturnURL: back}}
	for _, path := range []string{checkout, portal, "/billing/sandbox/checkout/none", "/billing/sandbox/", "/billing/sandbox/x/y/z"} {
		answer := p.send(t, io.Discard, http.MethodGet, path, "")
		h := answer.Header
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		require.Equal(t, "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'", h.Get("Content-Security-Policy"))
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Contains(t, text(t, answer), "This is a sandbox.", path)
		if !strings.HasSuffix(path, "/abc") {
			require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
		}
	}
	answer := p.send(t, io.Discard, http.MethodGet, "/billing/sandbox/style.css", "")
	require.Equal(t, "text/css; charset=utf-8", answer.Header.Get("Content-Type"))
	require.Contains(t, text(t, answer), ".button")

	var log bytes.Buffer
	p.refuse = errors.New("pq: secret detail")
	answer = p.send(t, &log, http.MethodPost, checkout, url.Values{"card": {"works"}}.Encode())
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	require.NotContains(t, text(t, answer), "secret detail")
	require.Contains(t, log.String(), "secret detail")
}
