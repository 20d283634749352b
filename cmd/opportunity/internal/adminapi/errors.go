package adminapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// RequestError is the error for a rejected request.
type RequestError struct {
	Status int
	Code   string // of the error body; unexpected_response if it has none
	Path   string // of the error body
	Reason string // of an invalid value, without its path
}

func (e *RequestError) Error() string {
	if e.Path == "" || e.Code == string(problem.NotFound) {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Failure is an error of the command itself, with a code for programs.
type Failure struct {
	Code, Message string
}

func (e *Failure) Error() string { return e.Message }

// Error codes of the command. A RequestError has the service's code instead.
const (
	CodeFailed      = "failed"                // anything else, such as a file that cannot be read
	CodeInterrupted = "interrupted"           // Ctrl-C
	CodeNoToken     = "no_operator_token"     //nolint:gosec // a code, not a token
	CodeNoActor     = "no_actor"              // a change without the name of a person
	CodeRejected    = "file_rejected"         // nothing was changed; standard output has the report
	CodeAltered     = "history_altered"       // events do not match their checkpoints
	CodeUnreachable = "unreachable"           // connection failed or was lost
	CodeTimeout     = "timeout"               // no response in time
	CodeUntrusted   = "untrusted_certificate" // of the admin listener
	CodeUnexpected  = "unexpected_response"   // not from an admin listener
)

// ErrNoActor is the error of a change without the name of a person.
var ErrNoActor = &Failure{CodeNoActor, "no name for the audit log: USER is not set. Set OPPORTUNITY_ACTOR to your name"}

// Code classifies err for programs.
func Code(err error) string {
	if rejected := new(RequestError); errors.As(err, &rejected) {
		return rejected.Code
	}
	if failure := new(Failure); errors.As(err, &failure) {
		return failure.Code
	}
	if errors.Is(err, context.Canceled) {
		return CodeInterrupted
	}
	return CodeFailed
}

const useAnother = "Set OPPORTUNITY_ADMIN_URL to use another address."

// Unreachable describes why the HTTP server at base did not respond.
func Unreachable(base string, err error) error {
	wrapped := new(url.Error)
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	fail := func(code, format string, args ...any) error {
		return &Failure{code, fmt.Sprintf(format, args...)}
	}
	var local *fs.PathError
	switch {
	case errors.As(err, &local): // the file that was sent, or the one that the response is written to
		return err
	case errors.Is(err, context.Canceled):
		return fail(CodeInterrupted, "interrupted")
	case errors.As(err, &certificate):
		return fail(CodeUntrusted,
			"cannot trust %s: %v. Use the name that its certificate was issued for, and SSL_CERT_FILE for a private authority.",
			base, certificate.Err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fail(CodeUnexpected, "%s does not speak HTTPS: use an http:// URL. %s", base, useAnother)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fail(CodeTimeout, "%s did not respond in time. Check the address and the network. %s", base, useAnother)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail(CodeUnreachable, `cannot reach %s: connection refused. Is "opportunity up" running? %s`, base, useAnother)
	case errors.As(err, &dns):
		return fail(CodeUnreachable, "cannot reach %s: no host named %q. %s", base, dns.Name, useAnother)
	case errors.As(err, &op) && op.Op == "dial":
		return fail(CodeUnreachable, "cannot reach %s: %v. %s", base, op.Err, useAnother)
	}
	return fail(CodeUnreachable, "lost the connection to %s: %v", base, err)
}

// Unexpected describes a response that cannot come from an admin listener.
func Unexpected(base string, status int, header http.Header) error {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if kind == "" {
		kind = "no content type"
	}
	return &RequestError{Status: status, Code: CodeUnexpected,
		Reason: fmt.Sprintf("%s is not an admin listener: it returned status %d (%s). "+
			"Set OPPORTUNITY_ADMIN_URL to the address of --admin-listen, http://%s by default.", base, status, kind,
			DefaultAdmin)}
}

func (c Client) rejected(resp *http.Response, p api.Problem) error {
	rejected := &RequestError{Status: resp.StatusCode, Code: p.Code, Path: p.Path, Reason: p.Message}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && c.TokenFile == "":
		rejected.Reason = c.URL +
			" rejected the operator token in OPPORTUNITY_OPERATOR_TOKEN: set it to one of the gateway's " +
			"OPPORTUNITY_OPERATOR_TOKENS"
	case resp.StatusCode == http.StatusUnauthorized:
		rejected.Reason = fmt.Sprintf("%s rejected the operator token in %s: set OPPORTUNITY_OPERATOR_TOKEN, "+
			`or use --data-dir with the directory of the "opportunity up" that runs there`, c.URL, c.TokenFile)
	case p.Path == problem.Endpoint:
		rejected.Path, rejected.Reason = "", c.URL+" is not an admin listener, or is one of another version. "+useAnother
	}
	return rejected
}
