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

// fakeSandbox records calls and returns a fixed session and error.
type fakeSandbox struct {
	session sandbox.Session
	err     error
	calls   []any
}

func (p *fakeSandbox) Session(_ context.Context, kind sandbox.Kind, id string) (sandbox.Session, error) {
	p.session.Kind, p.session.ID = kind, id
	if id != "abc" {
		return sandbox.Session{}, problem.New(problem.NotFound, "Page not found.")
	}
	return p.session, nil
}

func (p *fakeSandbox) Pay(_ context.Context, id string, declines bool) error {
	p.calls = append(p.calls, id, declines)
	return p.err
}

func (p *fakeSandbox) SetCard(_ context.Context, id string, declines bool) error {
	p.calls = append(p.calls, id, declines)
	return p.err
}

func (p *fakeSandbox) Perform(_ context.Context, id, subscription string, act sandbox.Action, days int) error {
	p.calls = append(p.calls, id, subscription, act, days)
	return p.err
}

func (p *fakeSandbox) send(t *testing.T, log io.Writer, method, path, form string, header ...string) *http.Response {
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
	resp := w.Result()
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func newSubscription(status sandbox.Status) sandbox.Subscription {
	now := time.Date(2026, 2, 3, 4, 5, 6, 700_000_000, time.UTC)
	return sandbox.Subscription{
		ID: "sub_1", Status: status, PeriodEnd: now,
		Invoices: []sandbox.Invoice{{ID: "in_1", USD: 29, From: now.AddDate(0, -1, 0), Until: now, Paid: true}},
	}
}

func TestCheckout(t *testing.T) {
	p := &fakeSandbox{session: sandbox.Session{ReturnURL: back, Plan: "Business", USD: 29, Account: "acc_<1>"}}
	resp := p.send(t, io.Discard, http.MethodGet, checkout, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	page := text(t, resp)
	for _, words := range []string{"This is a sandbox.", "Business", "29 USD a month", "acc_&lt;1&gt;", `href="` + back + `?checkout=left"`} {
		require.Contains(t, page, words)
	}

	resp = p.send(t, io.Discard, http.MethodPost, checkout, "card=works")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, back+"?checkout=done", resp.Header.Get("Location"))
	require.Equal(t, []any{"abc", false}, p.calls)

	resp = p.send(t, io.Discard, http.MethodPost, checkout, "card=declined")
	require.Equal(t, checkout+"?declined", resp.Header.Get("Location"))
	incomplete := newSubscription(sandbox.Incomplete)
	p.session.Subscription = &incomplete
	resp = p.send(t, io.Discard, http.MethodGet, checkout+"?declined", "")
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, text(t, resp), "Nothing was paid.")

	active := newSubscription(sandbox.Active)
	p.session.Subscription = &active
	page = text(t, p.send(t, io.Discard, http.MethodGet, checkout+"?declined", ""))
	require.Contains(t, page, "already paid")
	require.NotContains(t, page, "<form")
}

func TestPortal(t *testing.T) {
	p := &fakeSandbox{session: sandbox.Session{ReturnURL: back}}
	require.Contains(t, text(t, p.send(t, io.Discard, http.MethodGet, portal, "")), "No subscriptions yet.")
	p.session.Subscriptions = []sandbox.Subscription{newSubscription(sandbox.Active)}
	page := text(t, p.send(t, io.Discard, http.MethodGet, portal, ""))
	require.Contains(t, page, `<time datetime="2026-02-03T04:05:06.7Z">3 February 2026, 04:05:06 UTC</time>`)
	require.Contains(t, page, "Cancel at period end")

	for form, asked := range map[string][]any{
		"act=card-declines":                           {"abc", true},
		"act=card-works":                              {"abc", false},
		"act=advance&subscription=sub_1&days=+12":     {"abc", "sub_1", sandbox.Advance, 12},
		"act=refund&subscription=sub_1":               {"abc", "sub_1", sandbox.Refund, 0},
		"act=advance&subscription=sub_1&days=a+while": {"abc", "sub_1", sandbox.Advance, 0},
	} {
		p.calls = nil
		resp := p.send(t, io.Discard, http.MethodPost, portal, form)
		require.Equal(t, http.StatusSeeOther, resp.StatusCode, form)
		require.Equal(t, portal, resp.Header.Get("Location"))
		require.Equal(t, asked, p.calls)
	}
	p.err = problem.New(problem.InvalidParameter, "Enter a number of days from 1 to 9.")
	resp := p.send(t, io.Discard, http.MethodPost, portal, "act=advance&subscription=sub_1&days=10")
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	page = text(t, resp)
	require.Contains(t, page, "Enter a number of days from 1 to 9.")
	require.Contains(t, page, "Active")
}

// Every status has a description, and the portal offers only actions that can succeed.
func TestPortalDescribesEveryStatus(t *testing.T) {
	cancelled := newSubscription(sandbox.Active)
	cancelled.CancelAtPeriodEnd = true
	refunded := newSubscription(sandbox.Canceled)
	refunded.Invoices[0].Refunded = true
	disputed := newSubscription(sandbox.PastDue)
	disputed.Invoices[0].Dispute = sandbox.OpenDispute
	unpaid := newSubscription(sandbox.Incomplete)
	unpaid.Invoices[0].Paid = false
	won := newSubscription(sandbox.Active)
	won.Invoices[0].Dispute = sandbox.WonDispute
	for words, s := range map[string]sandbox.Subscription{
		"cancelled at period end": cancelled, "Refunded": refunded, "Paid, disputed": disputed, "Unpaid": unpaid, "Paid, dispute won": won,
	} {
		p := &fakeSandbox{session: sandbox.Session{ReturnURL: back, Subscriptions: []sandbox.Subscription{s}, Declines: true}}
		page := text(t, p.send(t, io.Discard, http.MethodGet, portal, ""))
		require.Contains(t, page, words)
		require.Contains(t, page, "is <strong>declined</strong>")
		require.Equal(t, s.Status == sandbox.Canceled, !strings.Contains(page, "Move the clock"))
		in := s.Invoices[0]
		require.Equal(t, in.Paid && !in.Refunded && in.Dispute != sandbox.OpenDispute, strings.Contains(page, ">Refund the last payment<"))
		require.Equal(t, in.Dispute == sandbox.OpenDispute, strings.Contains(page, ">Win the dispute<"))
		require.Equal(t, s.CancelAtPeriodEnd, strings.Contains(page, ">Resume<"))
	}
}

func TestCrossSiteFormsAreRejected(t *testing.T) {
	for _, header := range [][]string{
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "same-site", "Origin", "https://other.api.example"},
	} {
		p := &fakeSandbox{}
		require.Equal(t, http.StatusForbidden, p.send(t, io.Discard, http.MethodPost, checkout, "card=works", header...).StatusCode, header)
		require.Empty(t, p.calls)
	}
	p := &fakeSandbox{session: sandbox.Session{ReturnURL: back}}
	require.Equal(t, http.StatusSeeOther,
		p.send(t, io.Discard, http.MethodPost, checkout, "card=works", "Sec-Fetch-Site", "same-origin").StatusCode)
	require.Equal(t, http.StatusBadRequest, p.send(t, io.Discard, http.MethodPost, checkout, "card="+strings.Repeat("x", 5000)).StatusCode)
}

func TestHeadersAndErrorPages(t *testing.T) {
	p := &fakeSandbox{session: sandbox.Session{ReturnURL: back}}
	for _, path := range []string{checkout, portal, "/billing/sandbox/checkout/none", "/billing/sandbox/", "/billing/sandbox/x/y/z"} {
		resp := p.send(t, io.Discard, http.MethodGet, path, "")
		h := resp.Header
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		require.Equal(t, "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'", h.Get("Content-Security-Policy"))
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Contains(t, text(t, resp), "This is a sandbox.", path)
		if !strings.HasSuffix(path, "/abc") {
			require.Equal(t, http.StatusNotFound, resp.StatusCode, path)
		}
	}
	resp := p.send(t, io.Discard, http.MethodGet, "/billing/sandbox/style.css", "")
	require.Equal(t, "text/css; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Contains(t, text(t, resp), ".button")

	var log bytes.Buffer
	p.err = errors.New("pq: secret detail")
	resp = p.send(t, &log, http.MethodPost, checkout, url.Values{"card": {"works"}}.Encode())
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	require.NotContains(t, text(t, resp), "secret detail")
	require.Contains(t, log.String(), "secret detail")
}
