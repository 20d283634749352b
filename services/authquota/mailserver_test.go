package authquota_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// clock is a clock that the test moves.
type clock struct{ at atomic.Int64 }

func clockAt(t time.Time) *clock {
	c := new(clock)
	c.at.Store(t.UnixMicro())
	return c
}

func (c *clock) Now() time.Time        { return time.UnixMicro(c.at.Load()).UTC() }
func (c *clock) move(by time.Duration) { c.at.Add(by.Microseconds()) }

// mailServer is an SMTP server of one test.
type mailServer struct {
	address string
	roots   *x509.CertPool // to verify its certificate

	mu       sync.Mutex
	refuses  map[string]*smtp.SMTPError // by step: login, sender, recipient, data
	holds    chan struct{}              // if not nil, the server does not reply to a mail before it is closed
	arrived  []delivery
	attempts int // connections
	logins   int
}

type delivery struct {
	from, to, raw string
	secure        bool
	user          string
}

type mailServerKind struct{ implicit, plain, noLogin bool }

func startMailServer(t *testing.T, kind mailServerKind) *mailServer {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil) // its certificate is for 127.0.0.1
	certified.StartTLS()
	certificates := certified.TLS.Certificates
	m := &mailServer{refuses: map[string]*smtp.SMTPError{}, roots: x509.NewCertPool()}
	m.roots.AddCert(certified.Certificate())
	certified.Close()

	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.attempts++
		_, secure := c.TLSConnectionState()
		s := &mailSession{server: m, conn: c, delivery: delivery{secure: secure}}
		if kind.noLogin {
			return struct{ smtp.Session }{s}, nil
		}
		return s, nil
	}))
	server.Domain, server.AllowInsecureAuth = "mail.example", true // catches a client that sends its password in the clear
	server.ErrorLog = log.New(io.Discard, "", 0)
	secured := &tls.Config{Certificates: certificates} //nolint:gosec // of a test
	ln := listen(t)
	m.address = ln.Addr().String()
	switch {
	case kind.implicit:
		ln = tls.NewListener(ln, secured)
	case !kind.plain:
		server.TLSConfig = secured
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.NoError(t, <-ended)
	})
	return m
}

// reject makes the server reply to a step with an error; nil ends that.
func (m *mailServer) reject(step string, with *smtp.SMTPError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses[step] = with
}

func (m *mailServer) hold() (release func()) {
	held := make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds = held
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.holds = nil
		close(held)
	})
}

func (m *mailServer) deliveries() []delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]delivery(nil), m.arrived...)
}

func (m *mailServer) connections() (all, logins int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attempts, m.logins
}

func (m *mailServer) answer(step string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if refusal := m.refuses[step]; refusal != nil {
		return refusal
	}
	return nil
}

type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	delivery
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.server.mu.Lock()
		s.server.logins++
		s.server.mu.Unlock()
		if password != "pass word/1" {
			return smtp.ErrAuthFailed
		}
		s.user = user
		return s.server.answer("login")
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	_, s.secure = s.conn.TLSConnectionState()
	s.from = from
	return s.server.answer("sender")
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return s.server.answer("recipient")
}

func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.server.answer("data"); err != nil {
		return err
	}
	s.raw = string(raw)
	s.server.mu.Lock()
	s.server.arrived = append(s.server.arrived, s.delivery)
	held := s.server.holds
	s.server.mu.Unlock()
	if held != nil {
		<-held
	}
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }
