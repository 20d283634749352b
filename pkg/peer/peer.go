// Package peer implements calls between the services: JSON over HTTP, with a token for each pair of
// services.
//
// A Client calls one service through a Transport, which rejects the response to another request.
// Tokens has what a service sends, Callers what it accepts. An Access is the outermost handler of a
// service: it authenticates the caller and allows the paths that Rules lists for it, and no others.
// CheckReady explains why a service cannot be called.
package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Client is a client of one service.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// maxResponse limits the size of a response body, in bytes.
const maxResponse = 256 << 20

// New returns a client of the service at base, a URL without a trailing slash, that sends token. It
// has no timeout of its own; use contexts.
func New(base, token string, transport http.RoundTripper) *Client {
	return &Client{base: base, token: token, http: &http.Client{Transport: transport}}
}

// StatusError is a response with a status other than 2xx, with the code and message of its body.
type StatusError struct {
	Status  int
	Code    string
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("peer responded with status %d %s: %s", e.Status, e.Code, e.Message)
}

// Get requests path and decodes the response into out. A nil out ignores the body. It returns
// problem.Unavailable if the peer is unreachable or responds with 503, and a *StatusError for any
// other status that is not 2xx.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post posts in as JSON. Results are as for Get.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, http.MethodPost, path, in, out)
}

// Put puts in as JSON at path. Results are as for Get.
func (c *Client) Put(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, http.MethodPut, path, in, out)
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	header := http.Header{"Authorization": {"Bearer " + c.token}}
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
		header.Set("Content-Type", "application/json")
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := c.http.Do(req)
	if err != nil {
		return problem.Unavailable(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return problem.Unavailable(err)
	}
	if resp.StatusCode/100 != 2 {
		var e api.Error
		_ = json.Unmarshal(reply, &e) // a body from another server leaves code and message empty
		failed := &StatusError{resp.StatusCode, e.Error.Code, e.Error.Message}
		if resp.StatusCode == http.StatusServiceUnavailable {
			return problem.Unavailable(failed)
		}
		return failed
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply, out)
}

// NotReadyError is the error of CheckReady if the service responds but is not ready.
type NotReadyError struct {
	Base    string
	Status  int
	Missing []string // conditions that do not hold
}

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("%s is not ready: status %d", e.Base, e.Status)
	if len(e.Missing) > 0 {
		text += ", missing: " + strings.Join(e.Missing, ", ")
	}
	return text
}

// FaultError means that a service is ready, and reports faults that operators must correct.
type FaultError struct{ Faults []string }

func (e *FaultError) Error() string { return strings.Join(e.Faults, ", ") }

// SettingsError means that the settings of two services contradict each other: one rejects the
// token of the other, or they do not agree on TLS. Its text says what to compare.
type SettingsError struct {
	Token bool // it is about the token, not about TLS
	text  string
}

func (e SettingsError) Error() string { return e.text }

// RejectedToken returns the error about a service that does not accept the token of caller.
func RejectedToken(caller, peer string) SettingsError {
	return SettingsError{true, fmt.Sprintf("the token of %s is rejected: compare %s:... in %s of %[1]s with %[1]s:... in "+
		"%[4]s of %[2]s", caller, peer, peerSetting, callerSetting)}
}

// tlsFault returns what is wrong between two services that cannot use TLS with each other, or "" if
// err has another cause.
func tlsFault(caller, peer string, err error) string {
	var invalid *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("%s does not trust the certificate of %s: compare OPPORTUNITY_PEER_CA_FILE of %[1]s with "+
			"OPPORTUNITY_TLS_CERT_FILE of %[2]s: %v", caller, peer, unknown)
	case errors.As(err, &invalid):
		return fmt.Sprintf("%s rejects the certificate of %s: %v", caller, peer, invalid.Err)
	case errors.Is(err, errNeedsTLS):
		return fmt.Sprintf("%s uses TLS: its URL in the settings of %s must begin with https", peer, caller)
	case errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Sprintf("%s does not use TLS, but its URL in the settings of %s begins with https: set "+
			"OPPORTUNITY_TLS_CERT_FILE of %[1]s", peer, caller)
	}
	return ""
}

var (
	errNeedsTLS      = errors.New("plain HTTP request to a port with TLS")
	errTokenRejected = errors.New("token rejected")
)

// needsTLS is the body of net/http's response, with status 400, to a plain HTTP request to a port
// with TLS.
const needsTLS = "Client sent an HTTP request to an HTTPS server.\n"

const (
	readyPath       = "/readyz"
	callerParameter = "caller"
)

// CheckReady returns an error unless the service at base is ready: a *NotReadyError if it responds.
// Faults are ignored.
func CheckReady(ctx context.Context, base string) error {
	err := checkReady(ctx, base, readyPath, "", nil)
	if fault := new(FaultError); errors.As(err, &fault) {
		return nil
	}
	return err
}

// CheckReady is like the function CheckReady, and returns a SettingsError unless the service to at
// base accepts the token of the service from and agrees on TLS, or a *FaultError. roots are as for
// NewTransport.
func (t Tokens) CheckReady(ctx context.Context, from, to, base string, roots func() *x509.CertPool) error {
	err := checkReady(ctx, base, readyPath+"?"+callerParameter+"="+from, t.For(to), roots)
	if text := tlsFault(from, to, err); text != "" {
		return SettingsError{text: text}
	}
	switch {
	case errors.Is(err, errTokenRejected):
		return RejectedToken(from, to)
	case err == nil, errors.As(err, new(*FaultError)):
		return err
	}
	return fmt.Errorf("%s: %w", to, err)
}

// checkReady returns errTokenRejected if the response to a token is 401, and a *FaultError if the
// service is ready but has faults.
func checkReady(ctx context.Context, base, path, token string, roots func() *x509.CertPool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	connections := newConnections(roots, 0)
	connections.DisableKeepAlives = true
	resp, err := connections.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized && token != "" {
		return errTokenRejected
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		fault := new(FaultError)
		if json.Unmarshal(body, fault) == nil && len(fault.Faults) > 0 {
			return fault
		}
		return nil
	}
	if resp.StatusCode == http.StatusBadRequest && string(body) == needsTLS {
		return errNeedsTLS
	}
	failed := &NotReadyError{Base: base, Status: resp.StatusCode}
	_ = json.Unmarshal(body, failed) // a body from another server leaves it empty
	return failed
}
