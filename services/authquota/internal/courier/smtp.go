package courier

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// Timeouts of one SMTP reply and of a whole delivery.
const (
	replyTimeout = 30 * time.Second
	sendTimeout  = time.Minute
)

// relay sends mails to an SMTP server, each over its own connection.
type relay struct {
	target

	roots *x509.CertPool
	helo  string
}

func (r relay) send(ctx context.Context, m *gomail.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, m)
	if m.IsDelivered() { // after the server accepted the mail, only QUIT can fail
		return nil
	}
	return loggable(err)
}

// check connects and logs in, and sends nothing.
func (r relay) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return loggable(err)
	}
	_ = client.Close() // only QUIT can fail
	return nil
}

func (r relay) client(ctx context.Context) (*gomail.Client, error) {
	secure := &tls.Config{ServerName: r.host, RootCAs: r.roots, MinVersion: tls.VersionTLS12}
	options := []gomail.Option{
		gomail.WithTimeout(replyTimeout), gomail.WithHELO(r.helo), gomail.WithTLSConfig(secure),
		gomail.WithTLSPolicy(gomail.TLSMandatory),
		gomail.WithDialContextFunc(func(dialing context.Context, network, address string) (conn net.Conn, err error) {
			if r.implicit {
				conn, err = (&tls.Dialer{Config: secure}).DialContext(dialing, network, address)
			} else {
				conn, err = new(net.Dialer).DialContext(dialing, network, address)
			}
			if err == nil {
				// Close the connection at the end because the library does not close it after a
				// failed handshake, and on timeout because the library restarts its own deadline
				// with each step.
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
		return nil, err
	}
	return gomail.NewClient(r.host, append(options, gomail.WithPort(port))...)
}

// rejection is an SMTP error reply without its text, which may repeat the address or the mail.
type rejection struct {
	step     string
	code     int
	enhanced string
	final    bool // a retry cannot succeed
}

func (r rejection) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: rejected with %d %s", r.step, r.code, r.enhanced))
}

// loggable returns an error that is safe to log.
func loggable(err error) error {
	sendErr := (*gomail.SendError)(nil)
	if answer := (*textproto.Error)(nil); !errors.As(err, &sendErr) && errors.As(err, &answer) {
		return rejection{step: "greeting or login", code: answer.Code}
	}
	if sendErr == nil {
		return err // a connection error: host names and ports only
	}
	if sendErr.ErrorCode() == 0 {
		return fmt.Errorf("%s: connection failed", sendErr.Reason)
	}
	code, enhanced := sendErr.ErrorCode(), sendErr.EnhancedStatusCode()
	// Final errors concern this mail: its address or its size. All others concern the sender or are
	// temporary (rate limits, policies: 5.7.x), and an operator may fix them while the mail waits.
	mail := sendErr.Reason == gomail.ErrSMTPRcptTo || sendErr.Reason == gomail.ErrSMTPData ||
		sendErr.Reason == gomail.ErrSMTPDataClose
	final := mail && code >= 500 && code != 530 && code != 535 && !strings.HasPrefix(enhanced, "5.7.")
	return rejection{sendErr.Reason.String(), code, enhanced, final}
}

// checkDirectory returns an error unless files can be saved in the directory. It creates a missing
// one.
func checkDirectory(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(directory, ".*.part")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// saveFile writes a mail to a file that only its owner can read. It appears complete or not at all.
func saveFile(directory, name string, m io.WriterTo) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(directory, ".*.part") // mode 0600
	if err != nil {
		return err
	}
	_, err = m.WriteTo(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(directory, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
