package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/agent"
	"opportunity.internal/services/gateway/internal/authn"
)

// agent serves a message of an agent. A message that calls a tool makes one API call, which is
// authenticated, admitted, charged and recorded like a request for it; other messages are free.
// Errors of the endpoint itself have the form of its protocol, JSON-RPC.
func (e *Edge) agent(x *exchange) error {
	w, r := x.Writer, x.Request
	var message agent.Message
	reject := func(status int, text string) error {
		writeRPCError(x, status, message.ID, invalidRequest, text)
		return nil
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return reject(http.StatusMethodNotAllowed, "this endpoint allows only POST; see "+e.Errors.BaseURL+"/docs/agents")
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != e.origin() {
		return reject(http.StatusForbidden, "requests of web pages are not allowed: send no Origin header")
	}
	settle, err := e.admitMessage(r)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		return reject(http.StatusTooManyRequests, problem.Of(err).Text())
	}
	charged := false
	defer func() { settle(charged) }()
	body, release, err := e.forms.read(w, r, agent.MaxMessage, e.client(r))
	if err != nil {
		if p := problem.Of(err); p.Code.Status() < http.StatusInternalServerError {
			return reject(p.Code.Status(), p.Message)
		}
		return err
	}
	defer release()
	parsed, err := agent.Parse(body)
	if err != nil {
		return reject(http.StatusBadRequest, err.Error())
	}
	message = parsed
	ctx, cancel := context.WithTimeout(r.Context(), api.GatewayTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	buffer := &responseBuffer{header: http.Header{}, max: maxRecord}
	e.Agent.Serve(buffer, r, message, func(target *url.URL) agent.Response {
		response := e.agentCall(ctx, x, target)
		charged = isCharged(response.Status)
		return response
	})
	telemetry.SetRoute(ctx, string(opMCP)) // the call has set its own
	if !strings.HasPrefix(buffer.header.Get("Content-Type"), "application/json") &&
		buffer.status >= http.StatusBadRequest {
		text := strings.TrimSpace(string(buffer.body))
		switch {
		case !message.Unknown(text):
			return reject(buffer.status, text)
		case message.ID == nil: // a notification has no response
			writeRPC(x, http.StatusAccepted, "", nil)
			return nil
		}
		writeRPCError(x, http.StatusOK, message.ID, methodNotFound, "this server does not have this method")
		return nil
	}
	if v := buffer.header["Mcp-Protocol-Version"]; v != nil {
		w.Header()["Mcp-Protocol-Version"] = v
	}
	writeRPC(x, max(buffer.status, http.StatusOK), buffer.header.Get("Content-Type"), buffer.body)
	return nil
}

// agentUnit is the size of a message that takes a unit of work to parse, in bytes.
const agentUnit = 16 << 10

// admitMessage limits the work for a message before it is read; one of unknown length counts as the
// longest. The caller must call settle when the message is served. With a valid key, the message
// counts unless it makes a charged call; that one counts against the limits of the account.
// Otherwise it is anonymous.
func (e *Edge) admitMessage(r *http.Request) (settle func(charged bool), err error) {
	length := r.ContentLength
	if length < 0 || length > agent.MaxMessage {
		length = agent.MaxMessage
	}
	units := 1 + int(length/agentUnit)
	if key, err := authn.Read(r.Header["Authorization"], e.OlderKeys); err == nil {
		if p, err := e.Keys.Resolve(r.Context(), key); err == nil {
			limiter := e.anonymous.ofAccount(p.Account)
			if limiter.TokensAt(e.Now()) < float64(units) {
				return nil, e.anonymous.tooMany(r.Context(), "Too many messages that make no call.")
			}
			return func(charged bool) {
				if !charged {
					limiter.AllowN(e.Now(), units)
				}
			}, nil
		}
	}
	return func(bool) {}, e.anonymous.admit(r.Context(), e.client(r), units, e.Now())
}

func (e *Edge) origin() string {
	u, err := url.Parse(e.Errors.BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (e *Edge) agentCall(ctx context.Context, x *exchange, address *url.URL) agent.Response {
	header := http.Header{}
	for _, name := range []string{"Authorization", "X-Forwarded-For"} {
		if v := x.Request.Header[name]; v != nil {
			header[name] = v
		}
	}
	buffer := e.inner(ctx, x, address, header, maxRecord)
	if buffer.size > len(buffer.body) {
		e.Errors.Write(buffer, x.Request, errors.New("response of the API is longer than that of a tool may be"))
	}
	return agent.Response{Status: buffer.status, Header: buffer.header, Body: buffer.body}
}

// maxRecord bounds the response of the call of a tool, in bytes.
const maxRecord = 4 << 20

// writeRPCError writes an error of the protocol for the message with an id, which is null if it is
// not known.
func writeRPCError(x *exchange, status int, id json.RawMessage, code int, text string) {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(struct { // cannot fail: the id is valid JSON
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{code, text}})
	writeRPC(x, status, "application/json", body)
}

// Codes of JSON-RPC 2.0, section 5.1.
const (
	invalidRequest = -32600
	methodNotFound = -32601
)

func writeRPC(x *exchange, status int, kind string, body []byte) {
	x.Writer.Header().Set("X-Content-Type-Options", "nosniff")
	x.write(status, kind, "no-store", body)
}
