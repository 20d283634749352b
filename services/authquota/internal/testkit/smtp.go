package testkit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
	"opportunity.internal/pkg/storetest"
)

// SMTPServer is an SMTP server of one test.
type SMTPServer struct {
	Address string
	Roots   *x509.CertPool // to verify its certificate

	mu      sync.Mutex
	rejects map[string]*smtp.SMTPError // by step: login, sender, recipient, data
	arrived []Delivery
	logins  int
}

// Delivery is a mail that the server received.
type Delivery struct {
	From, To, Raw string
	Secure        bool   // over TLS
	User          string // empty without a login
}

// SMTPKind is the kind of a server. The zero SMTPKind offers STARTTLS and logins with the password
// "pass word/1".
type SMTPKind struct {
	Implicit bool // TLS from the start
	Plain    bool // no TLS
	NoLogin  bool
}

// StartSMTP runs a server until the end of the test.
func StartSMTP(t testing.TB, kind SMTPKind) *SMTPServer {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil) // its certificate is for 127.0.0.1
	certified.StartTLS()
	certificates := certified.TLS.Certificates
	m := &SMTPServer{rejects: map[string]*smtp.SMTPError{}, Roots: x509.NewCertPool()}
	m.Roots.AddCert(certified.Certificate())
	certified.Close()

	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		_, secure := c.TLSConnectionState()
		s := &smtpSession{server: m, conn: c, Delivery: Delivery{Secure: secure}}
		if kind.NoLogin {
			return struct{ smtp.Session }{s}, nil
		}
		return s, nil
	}))
	server.Domain, server.AllowInsecureAuth = "mail.example", true // catches a client that sends its password in the clear
	server.ErrorLog = log.New(io.Discard, "", 0)
	secured := &tls.Config{Certificates: certificates} //nolint:gosec // of a test
	ln := storetest.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	m.Address = ln.Addr().String()
	switch {
	case kind.Implicit:
		ln = tls.NewListener(ln, secured)
	case !kind.Plain:
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

// ErrLost as the reply to the data closes the connection.
var ErrLost = &smtp.SMTPError{Message: "lost"}

// Reject makes the server reply to a step with an error; nil ends that.
func (m *SMTPServer) Reject(step string, with *smtp.SMTPError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejects[step] = with
}

// Deliveries returns the mails received so far.
func (m *SMTPServer) Deliveries() []Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Delivery(nil), m.arrived...)
}

// Logins returns how many logins were tried.
func (m *SMTPServer) Logins() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logins
}

func (m *SMTPServer) reply(step string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rejection := m.rejects[step]; rejection != nil {
		return rejection
	}
	return nil
}

type smtpSession struct {
	server *SMTPServer
	conn   *smtp.Conn
	Delivery
}

// AuthMechanisms implements smtp.Session.
func (s *smtpSession) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.Session.
func (s *smtpSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.server.mu.Lock()
		s.server.logins++
		s.server.mu.Unlock()
		if password != "pass word/1" {
			return smtp.ErrAuthFailed
		}
		s.User = user
		return s.server.reply("login")
	}), nil
}

// Mail implements smtp.Session.
func (s *smtpSession) Mail(from string, _ *smtp.MailOptions) error {
	_, s.Secure = s.conn.TLSConnectionState()
	s.From = from
	return s.server.reply("sender")
}

// Rcpt implements smtp.Session.
func (s *smtpSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.To = to
	return s.server.reply("recipient")
}

// Data implements smtp.Session.
func (s *smtpSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.server.reply("data"); err != nil {
		if errors.Is(err, ErrLost) {
			_ = s.conn.Close()
		}
		return err
	}
	s.Raw = string(raw)
	s.server.mu.Lock()
	s.server.arrived = append(s.server.arrived, s.Delivery)
	s.server.mu.Unlock()
	return nil
}

// Reset implements smtp.Session.
func (s *smtpSession) Reset() {}

// Logout implements smtp.Session.
func (s *smtpSession) Logout() error { return nil }
