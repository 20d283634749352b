package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
)

// object is a JSON object of Stripe's API.
type object = map[string]any

// apiError is an error response of Stripe's API.
type apiError struct {
	status      int
	code, param string
	kind        string // its type; empty: invalid_request_error
	message     string
}

func (e *apiError) Error() string { return e.message }

func (e *apiError) body() object {
	kind := e.kind
	if kind == "" {
		kind = "invalid_request_error"
	}
	return object{"error": object{"type": kind, "code": e.code, "param": e.param, "message": e.message}}
}

func missing(param, id string) *apiError {
	status := http.StatusNotFound
	if param != "id" { // a parameter names the object
		status = http.StatusBadRequest
	}
	return &apiError{status: status, code: "resource_missing", param: param,
		message: "No such " + param + ": '" + id + "'"}
}

func invalid(param, message string) error {
	return &apiError{status: http.StatusBadRequest, code: "parameter_invalid", param: param, message: message}
}

type call struct {
	*http.Request

	tx  *gorm.DB
	now time.Time
}

func (c call) expands(field string) bool {
	for name, values := range c.Form {
		if strings.HasPrefix(name, "expand[") && slices.Contains(values, field) {
			return true
		}
	}
	return false
}

// metadata returns the parameters of a map, such as metadata[account].
func (c call) metadata(name string) map[string]string {
	out := map[string]string{}
	for key, values := range c.Form {
		if field, ok := strings.CutPrefix(key, name+"["); ok {
			out[strings.TrimSuffix(field, "]")] = values[0]
		}
	}
	return out
}

// addRoutes adds a handler for each request that billing makes, with the parameters that it
// accepts.
func (s *Sandbox) addRoutes() {
	for _, r := range []struct {
		pattern    string
		parameters string // a name covers the names that begin with it and a bracket
		handle     func(c call) (object, error)
	}{
		{"GET /v1/prices/{id}", "expand", s.price},
		{"POST /v1/customers", "email metadata", s.createCustomer},
		{"POST /v1/checkout/sessions",
			"mode customer client_reference_id line_items metadata expires_at subscription_data success_url cancel_url",
			s.createCheckout},
		{"GET /v1/checkout/sessions", "status limit", s.listCheckouts},
		{"POST /v1/checkout/sessions/{id}/expire", "", s.expireCheckout},
		{"POST /v1/billing_portal/sessions", "customer return_url", s.createPortal},
		{"GET /v1/subscriptions", "customer status limit expand", s.listSubscriptions},
		{"GET /v1/subscriptions/{id}", "expand", s.getSubscription},
		{"POST /v1/subscriptions/{id}", "cancel_at_period_end cancel_at", s.updateSubscription},
		{"GET /v1/invoices", "subscription status limit", s.listInvoices},
		{"POST /v1/invoices/{id}/finalize", "auto_advance", s.finalizeInvoice},
		{"POST /v1/invoices/{id}/pay", "", s.payInvoice},
		{"GET /v1/invoice_payments", "invoice status payment limit expand", s.listInvoicePayments},
	} {
		s.routes.HandleFunc(r.pattern, func(w http.ResponseWriter, request *http.Request) {
			status, body := s.respond(request, strings.Fields(r.parameters), r.handle)
			reply(w, status, body)
		})
	}
	s.routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		e := &apiError{status: http.StatusNotFound,
			message: "Unrecognized request URL (" + r.Method + ": " + r.URL.Path + ")."}
		reply(w, e.status, encode(e.body()))
	})
}

// ServeHTTP serves Stripe's API.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }

func reply(w http.ResponseWriter, status int, body json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Stripe-Should-Retry", "false") // an outage of the database lasts longer than the client's retries
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON of the fake
}

func encode(body object) json.RawMessage {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // objects contain only strings, numbers and booleans
	}
	return encoded
}

// respond checks a request, and handles it unless its idempotency key was used before.
func (s *Sandbox) respond(r *http.Request, parameters []string, handle func(call) (object, error)) (status int,
	body json.RawMessage) {
	err := checkRequest(r, parameters)
	if err == nil && r.Method == http.MethodGet {
		var found object
		found, err = handle(call{r, s.db.WithContext(r.Context()), s.time()})
		body = encode(found)
	} else if err == nil {
		err = s.transaction(r.Context(), func(tx *gorm.DB, now time.Time) error {
			status, body, err = once(call{r, tx, now}, handle)
			return err
		})
	}
	known := new(apiError)
	switch {
	case errors.As(err, &known):
		return known.status, encode(known.body())
	case errors.Is(err, errNotFound):
		return http.StatusNotFound, encode(missing("id", r.PathValue("id")).body())
	case err != nil:
		return http.StatusServiceUnavailable, encode((&apiError{kind: "api_error", message: "database unavailable"}).body())
	case status == 0:
		status = http.StatusOK
	}
	return status, body
}

func checkRequest(r *http.Request, parameters []string) error {
	if r.Header.Get("Authorization") != "Bearer "+Key {
		return &apiError{status: http.StatusUnauthorized, message: "Invalid API Key provided"}
	}
	if err := r.ParseForm(); err != nil {
		return invalid("", "Invalid form")
	}
	for name := range r.Form {
		outer, _, _ := strings.Cut(name, "[")
		if !slices.Contains(parameters, outer) {
			return &apiError{status: http.StatusBadRequest, code: "parameter_unknown", param: name,
				message: "Received unknown parameter: " + name}
		}
	}
	return nil
}

// requestTTL limits how long the response to an idempotency key is repeated.
const requestTTL = 24 * time.Hour

// once handles a request that has no idempotency key or a new one, and repeats the response to a
// known one. Only responses of requests that had an effect are stored: success, and a declined
// card.
func once(c call, handle func(call) (object, error)) (status int, body json.RawMessage, err error) {
	key := c.Header.Get("Idempotency-Key")
	parameters := c.Method + " " + c.URL.Path + " " + c.PostForm.Encode()
	if key != "" {
		before, err := get[request](c.tx, requestKind, "key_"+key)
		switch {
		case err == nil && before.Parameters != parameters:
			return 0, nil, &apiError{status: http.StatusBadRequest, kind: "idempotency_error",
				message: "Keys for idempotent requests can only be used with the same parameters they were first used with."}
		case !errors.Is(err, errNotFound):
			return before.Status, before.Body, err
		}
	}
	status = http.StatusOK
	found, err := handle(c)
	declined := new(apiError)
	if errors.As(err, &declined) && declined.status == http.StatusPaymentRequired {
		status, found, err = declined.status, declined.body(), nil
	}
	if body = encode(found); err != nil || key == "" {
		return status, body, err
	}
	return status, body, put(c.tx, requestKind, "key_"+key, "", c.now.Add(requestTTL), request{parameters, status, body})
}

func listOf(data ...object) object {
	return object{"object": "list", "has_more": false, "data": append([]object{}, data...)}
}

type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

// Transport is the transport of a client that calls an API in the same process, to whatever host
// requests are addressed.
type Transport struct{ API http.Handler }

// RoundTrip serves a request.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	out := response{header: http.Header{}}
	t.API.ServeHTTP(&out, r.Clone(r.Context()))
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: out.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: out.header,
		Body: io.NopCloser(&out.body), Request: r,
	}, nil
}

func instant(text string) (time.Time, bool) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0).UTC(), err == nil
}
