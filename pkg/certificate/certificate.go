// Package certificate reads the TLS certificates of connections between services from files. It
// reads them again when they change, so that they can be renewed without a restart.
//
// OpenServer returns the listener of a service that has a certificate (ServerConfig), OpenRoots the
// authorities that a client trusts (PeerConfig). Both keep what they last read if a new file is
// invalid or unreadable, log why, and warn before a certificate expires. While services change to
// TLS, a listener can take plain HTTP too.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	certSetting = "OPPORTUNITY_TLS_CERT_FILE"
	keySetting  = "OPPORTUNITY_TLS_KEY_FILE"
	caSetting   = "OPPORTUNITY_PEER_CA_FILE"

	plainSetting = "OPPORTUNITY_TLS_ACCEPT_PLAINTEXT"
)

// ServerConfig holds the settings of the certificate that a service presents to the other services.
type ServerConfig struct {
	CertFile string `env:"OPPORTUNITY_TLS_CERT_FILE" doc:"PEM file with the certificate of the service port, followed by intermediate certificates. Its names must include the host in the URLs that other services use. It is read again within 10 seconds of a change. Empty: the port uses plain HTTP."`
	KeyFile  string `env:"OPPORTUNITY_TLS_KEY_FILE" doc:"PEM file with the private key of OPPORTUNITY_TLS_CERT_FILE."`
	Plain    bool   `env:"OPPORTUNITY_TLS_ACCEPT_PLAINTEXT" envDefault:"false" doc:"Whether the service port also accepts plain HTTP while it has a certificate. It is for switching TLS on or off without lost requests."`
}

// PeerConfig holds the settings for verifying the certificates of other services.
type PeerConfig struct {
	CAFile string `env:"OPPORTUNITY_PEER_CA_FILE" doc:"PEM file with the certificate authorities that sign the certificates of the other services. If it is set, the URLs of all other services must begin with https. It is read again within 10 seconds of a change. Empty: services with https URLs need a certificate that the system trusts."`
}

// Validate returns an error unless both files are valid and belong together, or neither is set.
func (c ServerConfig) Validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("%s and %s must be set together", certSetting, keySetting)
	}
	if c.CertFile == "" {
		if c.Plain {
			return fmt.Errorf("%s has no effect without %s: remove it", plainSetting, certSetting)
		}
		return nil
	}
	_, err := readFiles(c.files(), parsePair)
	return err
}

func (c ServerConfig) files() []file {
	return []file{{certSetting, c.CertFile}, {keySetting, c.KeyFile}}
}

// Validate returns an error unless the file is valid, or not set. urls are the URLs of other
// services, by setting.
func (c PeerConfig) Validate(urls map[string]string) error {
	if c.CAFile == "" {
		return nil
	}
	_, err := readFiles(c.files(), parseRoots)
	errs := []error{err}
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		if strings.HasPrefix(urls[name], "http://") {
			errs = append(errs, fmt.Errorf("%s must begin with https://, because %s is set", name, caSetting))
		}
	}
	return errors.Join(errs...)
}

func (c PeerConfig) files() []file { return []file{{caSetting, c.CAFile}} }

// OpenServer reads the certificate of cfg. It returns a function that wraps a listener: its
// connections use TLS 1.3 with the current certificate. With ServerConfig.Plain, each connection
// uses TLS or not, as its client does; without a certificate, none does. OpenServer logs to log and
// registers a metric.
func OpenServer(cfg ServerConfig, now func() time.Time, log *slog.Logger, registry prometheus.Registerer) (
	func(net.Listener) net.Listener, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.CertFile == "" {
		return func(ln net.Listener) net.Listener { return ln }, nil
	}
	pair, err := open(cfg.files(), parsePair, now, log)
	if err != nil {
		return nil, err
	}
	pair.register(registry, "server")
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return pair.current(), nil
		},
	}
	return func(ln net.Listener) net.Listener {
		if cfg.Plain {
			return eitherListener{ln, config}
		}
		return tls.NewListener(ln, config)
	}, nil
}

// OpenRoots returns a function that returns the current certificate authorities in the file of cfg,
// or nil if none is set: those of the system apply. It logs to log and registers a metric.
func OpenRoots(cfg PeerConfig, now func() time.Time, log *slog.Logger,
	registry prometheus.Registerer) (func() *x509.CertPool, error) {
	if cfg.CAFile == "" {
		return nil, nil
	}
	pool, err := open(cfg.files(), parseRoots, now, log)
	if err != nil {
		return nil, err
	}
	pool.register(registry, "peer_ca")
	return pool.current, nil
}
