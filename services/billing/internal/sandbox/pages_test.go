package sandbox_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/subscription"
)

const back = sandboxtest.PublicURL + "/account/plan"

var now = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// site is a sandbox with its pages and one customer.
type site struct {
	*sandboxtest.Processor

	t        *testing.T
	customer string
	log      bytes.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, Processor: sandboxtest.New(t, func() time.Time { return now })}
	var err error
	s.customer, err = s.Customer(t.Context(), "acc_<1>", "ada@example.org", "att_1")
	require.NoError(t, err)
	return s
}

func (s *site) checkout() string {
	s.t.Helper()
	page, err := s.Checkout(s.t.Context(), subscription.Order{Account: "acc_<1>", Customer: s.customer, ReturnURL: back,
		Attempt: "att_1", ExpiresAt: now.Add(time.Hour)})
	require.NoError(s.t, err)
	return strings.TrimPrefix(page, sandboxtest.PublicURL)
}

func (s *site) portal() string {
	s.t.Helper()
	page := storetest.Must(s.Portal(s.t.Context(), s.customer, back))(s.t)
	return strings.TrimPrefix(page, sandboxtest.PublicURL)
}

func (s *site) send(method, target, form string, header ...string) *http.Response {
	s.t.Helper()
	handler := storetest.Must(s.Pages(sandboxtest.PublicURL, slog.New(slog.NewTextHandler(&s.log, nil))))(s.t)
	r := httptest.NewRequestWithContext(s.t.Context(), method, "http://10.0.0.1"+target, strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", sandboxtest.PublicURL)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	resp := w.Result()
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (s *site) page(target string) string { return text(s.t, s.send(http.MethodGet, target, "")) }

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	return string(storetest.Must(io.ReadAll(resp.Body))(t))
}

func TestCheckout(t *testing.T) {
	s := newSite(t)
	checkout := s.checkout()
	page := s.page(checkout)
	for _, words := range []string{"This is a sandbox.", "Business", "29 USD a month", "acc_&lt;1&gt;",
		`href="` + back + `?checkout=left"`} {
		require.Contains(t, page, words)
	}
	resp := s.send(http.MethodPost, checkout, "card=declined")
	require.Equal(t, checkout+"?declined", resp.Header.Get("Location"))
	resp = s.send(http.MethodGet, checkout+"?declined", "")
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, text(t, resp), "Nothing was paid.")

	resp = s.send(http.MethodPost, checkout, "card=works")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, back+"?checkout=done", resp.Header.Get("Location"))
	page = s.page(checkout + "?declined")
	require.Contains(t, page, "already paid")
	require.NotContains(t, page, "<form")
}

func TestPortal(t *testing.T) {
	s := newSite(t)
	portal := s.portal()
	require.Contains(t, s.page(portal), "No subscriptions yet.")
	id, _ := s.Subscribe(s.customer, "acc_<1>")
	page := s.page(portal)
	require.Contains(t, page, `<time datetime="2026-03-03T04:05:06Z">3 March 2026, 04:05:06 UTC</time>`)
	require.Contains(t, page, "Cancel at period end")

	for _, c := range []struct{ form, words string }{
		{"act=card-declines", "is <strong>declined</strong>"},
		{"act=card-works", "The card <strong>works</strong>"},
		{"act=cancel&subscription=" + id, "cancelled at period end"},
		{"act=advance&subscription=" + id, "Ended"},
	} {
		resp := s.send(http.MethodPost, portal, c.form)
		require.Equal(t, http.StatusSeeOther, resp.StatusCode, c.form)
		require.Equal(t, portal, resp.Header.Get("Location"))
		require.Contains(t, s.page(portal), c.words)
	}
	resp := s.send(http.MethodPost, portal, "act=advance&subscription="+id)
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, text(t, resp), "This subscription has ended.")
}

// Every status has a description, and an ended subscription offers no action.
func TestPortalDescribesEveryStatus(t *testing.T) {
	for words, change := range map[string]func(s *site, id string){
		"Active</dd>":                          func(*site, string) {},
		"cancelled at period end":              func(s *site, id string) { s.Cancel(id, true) },
		"Past due: the renewal payment failed": func(s *site, id string) { s.Renew(id, false) },
		"Ended</dd>":                           func(s *site, id string) { s.Delete(id) },
		"Unpaid":                               nil,
	} {
		t.Run(words, func(t *testing.T) {
			s := newSite(t)
			if change == nil {
				require.Equal(t, http.StatusSeeOther, s.send(http.MethodPost, s.checkout(), "card=declined").StatusCode)
			} else {
				id, _ := s.Subscribe(s.customer, "acc_<1>")
				change(s, id)
			}
			page := s.page(s.portal())
			require.Contains(t, page, words)
			require.Equal(t, words != "Ended</dd>", strings.Contains(page, `name="subscription"`))
		})
	}
}

func TestErrorPages(t *testing.T) {
	s := newSite(t)
	checkout := s.checkout()
	for _, target := range []string{"/billing/sandbox/checkout/none", "/billing/sandbox/", "/billing/sandbox/x/y/z",
		"/billing/sandbox/static/x.css"} {
		resp := s.send(http.MethodGet, target, "")
		require.Equal(t, http.StatusNotFound, resp.StatusCode, target)
		require.Contains(t, text(t, resp), "This is a sandbox.", target)
	}
	style := regexp.MustCompile(`/billing/sandbox/static/style\.[0-9a-f]+\.css`).FindString(s.page(checkout))
	resp := s.send(http.MethodGet, style, "")
	require.Contains(t, text(t, resp), ".button")

	s.CloseDatabase()
	resp = s.send(http.MethodPost, checkout, "card=works")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.NotContains(t, text(t, resp), "database is closed")
	require.Contains(t, s.log.String(), "database is closed")
}
