package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	rereadInterval = 10 * time.Second
	warnInterval   = 24 * time.Hour
	maxWarnBefore  = 14 * 24 * time.Hour
)

// file is a file and the setting that names it.
type file struct{ setting, path string }

// contents of a set of files: the bytes, the parsed value, and the period of the certificate. If
// there are several certificate authorities, the period is that of the longest valid one.
type contents[T any] struct {
	raw        [][]byte
	value      T
	begin, end time.Time
}

type parser[T any] func(raw [][]byte) (value T, begin, end time.Time, err error)

func readFiles[T any](files []file, parse parser[T]) (contents[T], error) {
	var c contents[T]
	for _, f := range files {
		raw, err := os.ReadFile(f.path)
		if err != nil {
			return c, fmt.Errorf("%s: %w", f.setting, err)
		}
		c.raw = append(c.raw, raw)
	}
	var err error
	if c.value, c.begin, c.end, err = parse(c.raw); err != nil {
		return c, fmt.Errorf("%s %s: %w", files[0].setting, files[0].path, err)
	}
	return c, nil
}

func parsePair(raw [][]byte) (*tls.Certificate, time.Time, time.Time, error) {
	pair, err := tls.X509KeyPair(raw[0], raw[1])
	if err != nil {
		return nil, time.Time{}, time.Time{}, err
	}
	return &pair, pair.Leaf.NotBefore, pair.Leaf.NotAfter, nil
}

func parseRoots(raw [][]byte) (pool *x509.CertPool, begin, end time.Time, err error) {
	pool = x509.NewCertPool()
	for rest := raw[0]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, begin, end, fmt.Errorf("has a %s: only certificates belong here", block.Type)
		}
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, begin, end, err
		}
		pool.AddCert(root)
		if root.NotAfter.After(end) {
			begin, end = root.NotBefore, root.NotAfter
		}
	}
	if end.IsZero() {
		return nil, begin, end, errors.New("has no certificate in PEM form")
	}
	return pool, begin, end, nil
}

// watched is the value of files that are read again when they change. It is safe for concurrent
// use.
type watched[T any] struct {
	files []file
	parse parser[T]
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	checked time.Time // when the files were last read
	latest  contents[T]
	failure string // the error of the last read, or empty
	warned  time.Time
}

func open[T any](files []file, parse parser[T], now func() time.Time, log *slog.Logger) (*watched[T], error) {
	c, err := readFiles(files, parse)
	if err != nil {
		return nil, err
	}
	w := &watched[T]{files: files, parse: parse, now: now, log: log.With("file", files[0].path), latest: c, checked: now()}
	w.warn(w.checked)
	return w, nil
}

// current returns the value of the files at most rereadInterval ago. If they cannot be read, or do
// not belong together because they are being replaced, it returns the previous value.
func (w *watched[T]) current() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if since := now.Sub(w.checked); since < 0 || since >= rereadInterval {
		w.checked = now
		w.reread()
		w.warn(now)
	}
	return w.latest.value
}

// reread logs a failure once, until the next success or another failure.
func (w *watched[T]) reread() {
	c, err := readFiles(w.files, w.parse)
	switch {
	case err != nil:
		if w.failure != err.Error() {
			w.failure = err.Error()
			w.log.Error("certificate not reread, the previous one stays in use", "error", w.failure)
		}
		return
	case !slices.EqualFunc(c.raw, w.latest.raw, bytes.Equal):
		w.latest, w.warned = c, time.Time{}
		w.log.Info("certificate reread", "expires", c.end.UTC())
	}
	w.failure = ""
}

// overdue reports whether the certificate should have been renewed: it has expired or is in the
// last sixth of its period, and at most two weeks before its end.
func (c contents[T]) overdue(now time.Time) bool {
	return c.end.Sub(now) <= min(c.end.Sub(c.begin)/6, maxWarnBefore)
}

func (w *watched[T]) warn(now time.Time) {
	if !w.latest.overdue(now) || now.Sub(w.warned) < warnInterval {
		return
	}
	w.warned = now
	left := w.latest.end.Sub(now)
	message := "certificate expires soon"
	if left <= 0 {
		message = "certificate has expired"
	}
	w.log.Warn(message, "days_left", int(left/(24*time.Hour)), "expires", w.latest.end.UTC())
}

// register adds the metrics. A scrape also reads the files again, so a certificate without
// connections is logged too.
func (w *watched[T]) register(registry prometheus.Registerer, name string) {
	gauge := func(metric, help string, value func(contents[T]) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: metric, Help: help, ConstLabels: prometheus.Labels{"certificate": name},
		}, func() float64 {
			w.current()
			w.mu.Lock()
			defer w.mu.Unlock()
			return value(w.latest)
		}))
	}
	gauge("tls_certificate_expiry_timestamp_seconds",
		"When a certificate for connections between services expires: server, the one of this service; peer_ca, the "+
			"longest valid authority of the others.",
		func(c contents[T]) float64 { return float64(c.end.Unix()) })
	gauge("tls_certificate_renewal_overdue",
		"1 in the last sixth of the period of a certificate, at most two weeks before it expires, and after that.",
		func(c contents[T]) float64 {
			if c.overdue(w.now()) {
				return 1
			}
			return 0
		})
}
