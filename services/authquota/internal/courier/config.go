package courier

import (
	"crypto/x509"
	"errors"
	"net"
	netmail "net/mail"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"opportunity.internal/services/authquota/internal/mail"
)

// Config holds the mail settings.
type Config struct {
	URL  string `env:"OPPORTUNITY_SMTP_URL,required,notEmpty" doc:"Secret. How email is sent: smtp://user:password@host (port 587, STARTTLS required), smtps://user:password@host (port 465, TLS), or file:///directory, which sends nothing and saves each mail as an .eml file, and its text as a .txt file. smtp://host?starttls=off disables TLS, for a server on the same machine; with a password, other hosts are rejected."`
	From string `env:"OPPORTUNITY_MAIL_FROM,required,notEmpty" doc:"Sender of all mails: an address, or a name and the address in angle brackets."`

	Roots *x509.CertPool `env:"-"` // what the SMTP server's certificate is held against; nil: the system's
}

// Validate returns an error that lists the invalid settings, without their values.
func (c Config) Validate() error {
	var errs []error
	if c.URL != "" { // a missing URL is already reported
		_, err := c.target()
		errs = append(errs, err)
	}
	if c.From != "" {
		_, err := c.sender()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type target struct {
	directory      string // of .eml files; empty for SMTP
	host, port     string
	user, password string
	implicit       bool // implicit TLS
	plain          bool // without TLS
}

func (c Config) target() (target, error) {
	wrong := func(what string) (target, error) { return target{}, errors.New("OPPORTUNITY_SMTP_URL " + what) }
	u, err := url.Parse(c.URL)
	if err != nil {
		return wrong("is not a URL") // err quotes the URL, password included
	}
	if u.Scheme == "file" {
		if u.Host != "" || u.RawQuery != "" || !filepath.IsAbs(u.Path) {
			return wrong("must name an absolute directory: file:///directory")
		}
		return target{directory: u.Path}, nil
	}
	if u.Scheme != "smtp" && u.Scheme != "smtps" {
		return wrong("must begin with smtp://, smtps:// or file://")
	}
	t := target{host: u.Hostname(), port: u.Port(), user: u.User.Username(), implicit: u.Scheme == "smtps"}
	t.password, _ = u.User.Password()
	if t.host == "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return wrong("must be a server's name, with its port where that is another than usual")
	}
	if (t.user == "") != (t.password == "") {
		return wrong("has a user without a password, or a password without a user")
	}
	switch {
	case u.RawQuery == "":
	case u.RawQuery == "starttls=off" && !t.implicit:
		t.plain = true
	default:
		return wrong("takes no parameter but starttls=off, with smtp://")
	}
	if t.plain && t.user != "" && t.host != "localhost" && !net.ParseIP(t.host).IsLoopback() {
		return wrong("would send a password without TLS")
	}
	if t.port == "" {
		t.port = map[bool]string{true: "465", false: "587"}[t.implicit]
	}
	if n, err := strconv.ParseUint(t.port, 10, 16); err != nil || n == 0 {
		return wrong("has an invalid port: use 1 to 65535")
	}
	return t, nil
}

// Directory returns the directory in which mails are saved instead of being sent, and an empty
// string if they are sent.
func (c Config) Directory() string {
	t, _ := c.target() // Validate reports the error
	return t.directory
}

func (c Config) sender() (*netmail.Address, error) {
	from, err := netmail.ParseAddress(c.From)
	if err != nil || mail.Address(from.Address) != nil {
		return nil, errors.New("OPPORTUNITY_MAIL_FROM must be an email address, with or without a name: Name <address>")
	}
	return from, nil
}
