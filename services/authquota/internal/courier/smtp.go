package courier

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// patience is how long an SMTP server may take over one answer, and sending over all of them.
const (
	patience = 30 * time.Second
	sending  = time.Minute
)

// relay hands mails to an SMTP server, each over a connection of its own.
type relay struct {
	target

	roots *x509.CertPool
	helo  string
}

func (r relay) send(ctx context.Context, m *gomail.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	secure := &tls.Config{ServerName: r.host, RootCAs: r.roots, MinVersion: tls.VersionTLS12}
	options := []gomail.Option{
		gomail.WithTimeout(patience), gomail.WithHELO(r.helo), gomail.WithTLSConfig(secure), gomail.WithTLSPolicy(gomail.TLSMandatory),
		gomail.WithDialContextFunc(func(dialing context.Context, network, address string) (conn net.Conn, err error) {
			if r.implicit {
				conn, err = (&tls.Dialer{Config: secure}).DialContext(dialing, network, address)
			} else {
				conn, err = new(net.Dialer).DialContext(dialing, network, address)
			}
			if err == nil {
				// At the end, because the library leaves a connection open whose beginning fails; and when time is up, because its
				// own deadlines start anew with each step.
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}),
	}
	if r.implicit || r.plain { // no STARTTLS
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if r.user != "" {
		options = append(options, gomail.WithUsername(r.user), gomail.WithPassword(r.password),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin))
	}
	port, err := strconv.Atoi(r.port)
	if err != nil {
		return err
	}
	client, err := gomail.NewClient(r.host, append(options, gomail.WithPort(port))...)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, m)
	if m.IsDelivered() { // what fails after the server has taken the mail is only the farewell
		return nil
	}
	return understood(err)
}

// refusal is what an SMTP server said to a mail, without its words: those may repeat the address, or the mail.
type refusal struct {
	step     string
	code     int
	enhanced string
	final    bool // another try cannot end otherwise
}

func (r refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: refused with %d %s", r.step, r.code, r.enhanced))
}

// understood is an error that a log may show.
func understood(err error) error {
	said := (*gomail.SendError)(nil)
	if answer := (*textproto.Error)(nil); !errors.As(err, &said) && errors.As(err, &answer) {
		return refusal{step: "greeting or login", code: answer.Code}
	}
	if said == nil {
		return err // of the connection: names and numbers of the server only
	}
	if said.ErrorCode() == 0 {
		return fmt.Errorf("%s: the connection failed", said.Reason)
	}
	code, enhanced := said.ErrorCode(), said.EnhancedStatusCode()
	// About this mail and for good: its address, its size. Everything else is about us or passes (who sends, too much at once, a
	// policy: 5.7.x), and an operator may mend it while the mail waits.
	mail := said.Reason == gomail.ErrSMTPRcptTo || said.Reason == gomail.ErrSMTPData || said.Reason == gomail.ErrSMTPDataClose
	final := mail && code >= 500 && code != 530 && code != 535 && !strings.HasPrefix(enhanced, "5.7.")
	return refusal{said.Reason.String(), code, enhanced, final}
}
