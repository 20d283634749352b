package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/agent"
	"opportunity.internal/services/gateway/internal/authn"
)

const opMCP operation = "/mcp" // messages of agents, which make API calls

// agent serves a message of an agent. A message that calls a tool makes one API call, which is authenticated, admitted, charged and recorded
// like a request for it; other messages are free. Errors of the endpoint itself have the form of its protocol, JSON-RPC.
func (e *Edge) agent(w http.ResponseWriter, r *http.Request, _ target, _ *observation) (int, error) {
	var message agent.Message
	reject := func(status int, text string) (int, error) {
		return writeRPCError(w, status, message.ID, invalidRequest, text), nil
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return reject(http.StatusMethodNotAllowed, "this endpoint allows only POST; see "+e.Errors.BaseURL+"/docs/agents")
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != e.origin() {
		return reject(http.StatusForbidden, "requests of web pages are not allowed: send no Origin header")
	}
	body, release, err := e.forms.read(w, r, agent.MaxMessage, e.client(r))
	if err != nil {
		if p := problem.Of(err); p.Code.Status() < http.StatusInternalServerError {
			return reject(p.Code.Status(), p.Message)
		}
		return 0, err
	}
	defer release()
	units := 1 + len(body)/agentUnit
	settle, err := e.admitMessage(r, units)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		return reject(http.StatusTooManyRequests, problem.Of(err).Text())
	}
	charged := false
	defer func() { settle(charged) }()
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
		response := e.agentCall(w, r, target)
		charged = isCharged(response.Status)
		return response
	})
	telemetry.SetRoute(ctx, string(opMCP)) // the call has set its own
	if !strings.HasPrefix(buffer.header.Get("Content-Type"), "application/json") && buffer.status >= http.StatusBadRequest {
		text := strings.TrimSpace(string(buffer.body))
		switch {
		case !message.Unknown(text):
			return reject(buffer.status, text)
		case message.ID == nil: // a notification has no response
			return writeRPC(w, http.StatusAccepted, nil), nil
		}
		return writeRPCError(w, http.StatusOK, message.ID, methodNotFound, "this server does not have this method"), nil
	}
	for _, name := range []string{"Content-Type", "Mcp-Protocol-Version"} {
		if v := buffer.header[name]; v != nil {
			w.Header()[name] = v
		}
	}
	return writeRPC(w, max(buffer.status, http.StatusOK), buffer.body), nil
}

// agentUnit is the size of a message that takes a unit of work to parse, in bytes.
const agentUnit = 16 << 10

// admitMessage limits the work for a message before it is parsed. The caller must call settle when the message is served. With a valid
// key, the message counts unless it makes a charged call; that one counts against the limits of the account. Otherwise it is anonymous.
func (e *Edge) admitMessage(r *http.Request, units int) (settle func(charged bool), err error) {
	if key, err := authn.Read(r.Header["Authorization"], e.OlderKeys); err == nil {
		if p, err := e.Keys.Resolve(r.Context(), key, e.client(r)); err == nil {
			limiter := e.anonymous.ofAccount(p.Account)
			if limiter.TokensAt(e.Now()) < float64(units) {
				return nil, tooMany("Too many messages that make no call.")
			}
			return func(charged bool) {
				if !charged {
					limiter.AllowN(e.Now(), units)
				}
			}, nil
		}
	}
	return func(bool) {}, e.anonymous.admit(e.client(r), units, e.Now())
}

// origin returns the origin of the API's own pages.
func (e *Edge) origin() string {
	u, err := url.Parse(e.Errors.BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// agentCall makes the API call of a tool with the key that the message has brought.
func (e *Edge) agentCall(w http.ResponseWriter, r *http.Request, address *url.URL) agent.Response {
	call := (&http.Request{Method: http.MethodGet, URL: address, Header: http.Header{}, Body: http.NoBody, RemoteAddr: r.RemoteAddr}).WithContext(r.Context())
	for _, name := range []string{"Authorization", "X-Forwarded-For"} {
		if v := r.Header[name]; v != nil {
			call.Header[name] = v
		}
	}
	buffer := &responseBuffer{header: http.Header{api.RequestIDHeader: w.Header()[api.RequestIDHeader]}, max: maxRecord}
	e.inner(buffer, call, address, func(to target) handler { return e.call(e.serviceOf(to)) })
	if buffer.size > len(buffer.body) {
		e.Errors.Write(buffer, call, errors.New("response of the API is longer than that of a tool may be"))
	}
	return agent.Response{Status: buffer.status, Header: buffer.header, Body: buffer.body}
}

// writeRPCError writes an error of the protocol for the message with an id, which is null if it is not known, and returns the status.
func writeRPCError(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) int {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(struct { // cannot fail: the id is valid JSON
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{code, text}})
	w.Header().Set("Content-Type", "application/json")
	return writeRPC(w, status, body)
}

// Codes of JSON-RPC 2.0, section 5.1.
const (
	invalidRequest = -32600
	methodNotFound = -32601
)

func writeRPC(w http.ResponseWriter, status int, body []byte) int {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client disconnected
	return status
}
