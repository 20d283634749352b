package linkcheck

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// html returns a handler that sends a page.
func html(body string) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(out, "<!doctype html><title>Maple</title>"+body)
	}
}

// zipped sends the body of h as gzip.
func zipped(h http.HandlerFunc) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(out)
		h(writerOf{out, z}, r)
		_ = z.Close()
	}
}

const payPage = "<p>We pay $20 per hour.</p><p>You must be 18 or older to join our program for remote workers.</p>"

func TestPageIsRead(t *testing.T) {
	w := newFakeNet(t)
	const text = "We pay $20 per hour.\nYou must be 18 or older to join our program for remote workers."
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		outcome string
		text    string // empty if none is read
		unread  string
	}{
		{"text", html(payPage), "reachable", text, ""},
		{"gzip", zipped(html(payPage)), "reachable", text, ""},
		{"script", html("<script src=app.js></script><div id=root></div>"), "reachable", "",
			"The page was not read: drawn by a script."},
		{"bot wall with 200", html("<h1>Just a moment...</h1><p>Verify you are human</p>"), "reachable", "",
			"The page was not read: asks whether the reader is a robot."},
		{"bot wall with a header", func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("X-Amzn-Waf-Action", "challenge")
			html(payPage)(out, r)
		}, "blocked", "", ""},
		{"an unknown encoding", func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("Content-Encoding", "br")
			html(payPage)(out, r)
		}, "reachable", "", "The page was not read: its content is incomplete or encoded in an unknown way."},
		{"not gzip", func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("Content-Encoding", "gzip")
			html(payPage)(out, r)
		}, "reachable", "", "The page was not read: its content is incomplete or encoded in an unknown way."},
		{"gone", status(404), "closed", "", ""},
		{"wall", status(403), "blocked", "", ""},
		{"home page", w.redirect(302, "/"), "needs-review", text, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.on("/faq", c.handler)
			w.on("/", html(payPage))
			got := w.readBy(w.checker(nil), "http://maple.works:PORT/faq")
			require.Equal(t, c.outcome, string(got.outcome), got.note)
			require.Equal(t, c.unread, got.unread)
			if c.text == "" {
				require.Nil(t, got.page)
				require.NotEmpty(t, reading("x", time.Now(), got).Note)
				return
			}
			require.NotNil(t, got.page)
			require.Equal(t, c.text, got.page.Text)
			require.Empty(t, reading("x", time.Now(), got).Note)
		})
	}
}

func TestPageThatSaysItIsClosedNeedsReview(t *testing.T) {
	w := newFakeNet(t)
	closed := api.ApplicationClosed
	for body, want := range map[string]api.Cause{
		"<p>Thank you for your interest. This program is closed.</p>": {Text: "This program is closed.",
			Status: closed},
		"<p>Les inscriptions sont désormais fermées.</p>": {Text: "Les inscriptions sont désormais fermées.",
			Status: closed},
		"<h1>maple.works</h1><p>This domain is for sale. Make an offer</p>": {Text: "This domain is for sale.",
			Status: closed},
		"<p>Registration is full. Join our waitlist.</p>": {Text: "Registration is full.",
			Status: api.ApplicationWaitlist},
	} {
		w.on("/apply", html(body))
		got := w.readBy(w.checker(nil), "http://maple.works:PORT/apply").judgeText()
		require.Equal(t, needsReview, got.outcome)
		require.Equal(t, &want, got.cause)
		require.Equal(t, fmt.Sprintf("Answered 200. The page says %q.", want.Text), got.note)
	}
	w.on("/apply", html(payPage))
	got := w.readBy(w.checker(nil), "http://maple.works:PORT/apply").judgeText()
	require.Equal(t, reachable, got.outcome)
	require.Nil(t, got.cause)

	w.on("/old", w.redirect(302, "http://birch.works:PORT/apply"))
	got = w.readBy(w.checker(nil), "http://maple.works:PORT/old").judgeText()
	require.Equal(t, &api.Cause{Text: "It leads to another site, birch.works."}, got.cause)
	w.on("/apply", html("<p>This program is closed.</p>"))
	got = w.readBy(w.checker(nil), "http://maple.works:PORT/old").judgeText()
	require.Equal(t, &api.Cause{Text: "It leads to another site, birch.works. This program is closed."}, got.cause)
}

// patient leaves a slow machine time to send a body.
func patient(cfg *Config) { cfg.Timeout = time.Minute }

func TestHostilePageIsBounded(t *testing.T) {
	w := newFakeNet(t)
	zeros := strings.Repeat("\x00", 64<<10)
	var member strings.Builder
	_ = gzip.NewWriter(&member).Close()
	typed := func(contentType, encoding string) func(http.HandlerFunc) http.HandlerFunc {
		return func(h http.HandlerFunc) http.HandlerFunc {
			return func(out http.ResponseWriter, r *http.Request) {
				out.Header().Set("Content-Type", contentType)
				if encoding != "" {
					out.Header().Set("Content-Encoding", encoding)
				}
				h(out, r)
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(send http.HandlerFunc) http.HandlerFunc
		chunk   string
		unread  string
	}{
		"10 GB": {typed("text/html", ""), zeros, "The page was not read: larger than 4 MB."},
		"gzip bomb": {func(h http.HandlerFunc) http.HandlerFunc { return typed("text/html", "")(zipped(h)) }, zeros,
			"The page was not read: larger than 4 MB."},
		"10 GB of another type": {typed("application/pdf", ""), zeros, "The page was not read: not text."},
		// They decode to nothing, so the limit on the decoded body alone would never end the download.
		"endless empty gzip": {typed("text/html", "gzip"), strings.Repeat(member.String(), 4<<10),
			"The page was not read: its content is incomplete or encoded in an unknown way."},
	} {
		t.Run(name, func(t *testing.T) {
			var body counted
			ended := make(chan struct{})
			w.on("/faq", func(out http.ResponseWriter, r *http.Request) {
				defer close(ended)
				c.prepare(func(out http.ResponseWriter, _ *http.Request) { body.repeat(out, c.chunk) })(out, r)
			})
			got := w.readBy(w.checker(patient), "http://maple.works:PORT/faq")
			<-ended
			require.Equal(t, reachable, got.outcome)
			require.Equal(t, c.unread, got.unread)
			require.Nil(t, got.page)
			if name != "gzip bomb" {
				require.Less(t, body.sent.Load(), int64(fewBytes))
			}
		})
	}
}

func TestBodyThatStopsIsNotRead(t *testing.T) {
	w := newFakeNet(t)
	released := make(chan struct{})
	w.on("/faq", func(out http.ResponseWriter, r *http.Request) {
		html(payPage)(out, r)
		_ = http.NewResponseController(out).Flush()
		<-r.Context().Done()
		close(released)
	})
	got := w.readBy(w.checker(func(cfg *Config) { cfg.Timeout = 300 * time.Millisecond }),
		"http://maple.works:PORT/faq")
	<-released
	require.Equal(t, reachable, got.outcome, "the link works")
	require.Nil(t, got.page)
	require.Equal(t, "The page was not read: its content is incomplete or encoded in an unknown way.", got.unread)
}
