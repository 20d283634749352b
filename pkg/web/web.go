// Package web is the glue between gin and the contract: handlers return what they answer or why they refuse, and one function
// writes it.
package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// parameter is a path parameter as gin writes it. Logs and traces have it as the interface description and the gateway do.
var parameter = regexp.MustCompile(`:(\w+)`)

// New makes an engine that answers only what is registered: no redirects, every refusal in the specification's body, a panic
// is an internal_error.
func New(errors problem.Writer) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash, e.HandleMethodNotAllowed, e.ContextWithFallback = false, true, true
	_ = e.SetTrustedProxies(nil) // only malformed addresses fail
	e.Use(func(g *gin.Context) {
		if route := g.FullPath(); route != "" {
			telemetry.SetRoute(g.Request.Context(), parameter.ReplaceAllString(route, "{$1}"))
		}
		defer func() {
			if cause := recover(); cause != nil {
				if cause == http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is what is thrown
					panic(cause)
				}
				errors.Write(g.Writer, g.Request, fmt.Errorf("panic: %v", cause))
				g.Abort()
			}
		}()
		g.Next()
	})
	e.NoRoute(refuse(errors, problem.New(problem.NotFound, "There is nothing at this address.")))
	e.NoMethod(refuse(errors, problem.New(problem.MethodNotAllowed, "This address does not take that method.")))
	return e
}

func refuse(errors problem.Writer, err error) gin.HandlerFunc {
	return func(g *gin.Context) { errors.Write(g.Writer, g.Request, err) }
}

// Reply is a successful answer.
type Reply struct {
	Status int                   // 0 means 200
	ETag   string                // weak validator without W/ and quotes; where it is set the answer may be a 304
	Header http.Header           // further headers
	JSON   any                   // encoded as the body
	Stream func(io.Writer) error // writes a body of unknown length; its failure cuts the connection, so that nobody takes a part for the whole
	Body   []byte                // a body that is already encoded; wins over JSON
	Type   string                // media type; empty means application/json
	Done   func()                // called after the last byte was handed over, also for a 304: Body may be used again then
}

// Answer turns a handler into gin's form. It is the only code that sets a status or writes a body.
func Answer(errors problem.Writer, handle func(*gin.Context) (Reply, error)) gin.HandlerFunc {
	return func(g *gin.Context) {
		reply, err := handle(g)
		if reply.Done != nil {
			defer reply.Done()
		}
		if err == nil && reply.Body == nil && reply.JSON != nil {
			reply.Body, err = encode(reply.JSON)
		}
		if err != nil {
			errors.Write(g.Writer, g.Request, err)
			return
		}
		write(g, reply)
	}
}

// encode is encoding/json without its escapes for HTML, which nothing here is embedded in.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func write(g *gin.Context, reply Reply) {
	h := g.Writer.Header()
	for name, values := range reply.Header {
		h[name] = values
	}
	status := reply.Status
	if status == 0 {
		status = http.StatusOK
	}
	if reply.ETag != "" {
		h.Set("ETag", `W/"`+reply.ETag+`"`)
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Vary", "Authorization")
		if status == http.StatusOK && matches(g.Request.Header.Values("If-None-Match"), reply.ETag) {
			g.Writer.WriteHeader(http.StatusNotModified)
			g.Writer.WriteHeaderNow()
			return
		}
	}
	if reply.Body != nil || reply.Stream != nil {
		kind := reply.Type
		if kind == "" {
			kind = "application/json"
		}
		h.Set("Content-Type", kind)
	}
	if reply.Body != nil {
		h.Set("Content-Length", strconv.Itoa(len(reply.Body)))
	}
	g.Writer.WriteHeader(status)
	g.Writer.WriteHeaderNow()
	switch {
	case g.Request.Method == http.MethodHead:
	case reply.Stream != nil:
		if err := reply.Stream(g.Writer); err != nil {
			panic(http.ErrAbortHandler)
		}
	default:
		_, _ = g.Writer.Write(reply.Body)
	}
}

// matches compares weakly, as RFC 9110 section 13.1.2 asks for If-None-Match.
func matches(headers []string, etag string) bool {
	for _, header := range headers {
		for candidate := range strings.SplitSeq(header, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == `"`+etag+`"` {
				return true
			}
		}
	}
	return false
}

// Internal lets only peers with an internal token through.
func Internal(errors problem.Writer, tokens peer.Tokens) gin.HandlerFunc {
	return func(g *gin.Context) {
		if !tokens.Accept(g.GetHeader("Authorization")) {
			errors.Write(g.Writer, g.Request, problem.New(problem.InvalidAPIKey, "This port takes only the internal token."))
			g.Abort()
		}
	}
}

// Caller reads who asks, as the gateway told; it is to be believed only behind Internal.
func Caller(g *gin.Context) (api.Caller, error) {
	var c api.Caller
	if err := json.Unmarshal([]byte(g.GetHeader(api.CallerHeader)), &c); err != nil || c.Tier == "" || c.PageSize < 1 {
		return c, fmt.Errorf("header %s is missing or malformed", api.CallerHeader)
	}
	return c, nil
}

// Actor reads on whose behalf an operator's verb runs; it is to be believed only behind Internal.
func Actor(g *gin.Context) (string, error) {
	name := g.GetHeader(api.ActorHeader)
	if name == "" || len(name) > maxActor || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", problem.New(problem.InvalidParameter, "Header %s must name the operator in 1 to %d bytes of printable UTF-8.", api.ActorHeader, maxActor)
	}
	return name, nil
}

const maxActor = 200
