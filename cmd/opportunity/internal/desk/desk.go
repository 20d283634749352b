// Package desk serves the curation desk: the web pages on which curators review, publish and manage
// listings.
//
// The desk is a client of the operator API and stores nothing itself. Every request to the API
// carries the operator token of the person who signed in, so the gateway enforces roles and records
// who acted. To add a page, add a line to routes.go, a handler that returns a view, and a template
// in templates/ that defines "content". All pages work without JavaScript.
package desk

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/server"
)

//go:embed static
var own embed.FS

// Options configures a Desk.
type Options struct {
	Listener  net.Listener
	PublicURL string // URL in browsers; empty: http://localhost with the port of Listener, which must be on loopback then
	AdminURL  string // admin listener of a gateway
	Log       *slog.Logger
	Now       func() time.Time

	Token string // operator token behind the one-time sign-in URL; if empty, there is no such URL
	Actor string // that person's name

	LinksOff string // why links are not checked; empty if they are, or if the desk does not know
}

// Desk serves the pages.
type Desk struct {
	Options

	public   *url.URL
	hosts    map[string]bool // accepted values of the Host header
	sessions *sessionStore
	throttle throttle
	code     *signInCode
	kit      *pages.Kit
	http     *http.Client
}

// New returns a Desk that is ready to serve.
func New(o Options) (*Desk, error) {
	d := &Desk{Options: o, sessions: newSessionStore(o.Now),
		http: &http.Client{Timeout: time.Minute}}
	var err error
	if d.public, d.hosts, err = addresses(o.PublicURL, o.Listener.Addr()); err != nil {
		return nil, err
	}
	d.kit, err = pages.New(pages.Config{
		Name: "Curation desk", URL: d.public.String(), Cookies: http.SameSiteStrictMode,
		Static: own, Templates: sources, Funcs: functions, Log: o.Log,
	})
	d.code = newSignInCode(o.Now())
	return d, err
}

// addresses returns the URL of the desk and the hosts under which it accepts requests. Any other
// host may be a name that an attacker pointed at this machine (DNS rebinding).
func addresses(publicURL string, listening net.Addr) (public *url.URL, hosts map[string]bool, err error) {
	at, isTCP := listening.(*net.TCPAddr)
	loopback := isTCP && at.IP.IsLoopback()
	if publicURL == "" {
		if !loopback {
			return nil, nil, fmt.Errorf("the desk listens on %s, not on a loopback address: "+
				"set OPPORTUNITY_DESK_URL to its https URL", listening)
		}
		// The name rather than the address: Firefox and Chromium accept the session cookie, which
		// is Secure, from both, but the specification promises it for the name only.
		publicURL = fmt.Sprintf("http://localhost:%d", at.Port)
	}
	public, err = url.Parse(publicURL)
	if err != nil || public.Host == "" || public.Path != "" || public.RawQuery != "" || public.Scheme != "https" &&
		!local(public) {
		return nil, nil, fmt.Errorf("invalid URL %q of the desk: use an https URL without a path, or http://localhost",
			publicURL)
	}
	hosts = map[string]bool{public.Host: true}
	if loopback {
		port := fmt.Sprint(at.Port)
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			hosts[net.JoinHostPort(name, port)] = true
		}
	}
	return public, hosts, nil
}

func local(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// URL returns the address of the desk.
func (d *Desk) URL() string { return d.public.String() }

// SignInURL returns a URL that signs in the person at this machine once, within codeLife. Without a
// token, it is the URL of the sign-in page.
func (d *Desk) SignInURL() string {
	if d.Token == "" {
		return d.URL() + "/sign-in"
	}
	return d.URL() + "/sign-in/once?code=" + d.code.text
}

func (d *Desk) client(token, actor string) adminapi.Client {
	return adminapi.Client{URL: d.AdminURL, Token: token, Actor: actor, HTTP: d.http}
}

// Run serves until ctx ends, and then until open requests are done.
func (d *Desk) Run(ctx context.Context) error {
	g := server.NewGroup(ctx, server.Config{Drain: 10 * time.Second}, d.Log, nil)
	g.HTTP("desk", d.Listener, d.Handler())
	return g.Wait()
}
