// Package web adapts handlers to gin. A handler returns a Reply or an error, and Handler writes the
// response.
//
// New returns an engine whose errors and panics have the body of package problem. Decode reads a
// JSON body strictly, File reads an upload as long as it does not stall. Caller and Actor return
// who sent a request, from headers that only the gateway can set.
package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// parameter matches a path parameter in gin's syntax. Logs and traces use the syntax of OpenAPI.
var parameter = regexp.MustCompile(`:(\w+)`)

// patterns holds the routes in the syntax of OpenAPI, by their text in gin's.
var patterns sync.Map

func pattern(route string) string {
	if p, ok := patterns.Load(route); ok {
		return p.(string)
	}
	p := parameter.ReplaceAllString(route, "{$1}")
	patterns.Store(route, p)
	return p
}

// New returns an engine without redirects. All its errors have the API's error body; a panic
// becomes an internal_error.
func New(errors problem.Writer) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash, e.HandleMethodNotAllowed, e.ContextWithFallback = false, true, true
	_ = e.SetTrustedProxies(nil) // only malformed addresses fail
	e.Use(func(g *gin.Context) {
		if route := g.FullPath(); route != "" {
			telemetry.SetRoute(g.Request.Context(), pattern(route))
		}
		defer func() {
			if cause := recover(); cause != nil {
				if cause == http.ErrAbortHandler { //nolint:errorlint // always the sentinel itself
					panic(cause)
				}
				errors.Write(g.Writer, g.Request, fmt.Errorf("panic: %v", cause))
				g.Abort()
			}
		}()
		g.Next()
	})
	e.NoRoute(reject(errors, problem.NoEndpoint()))
	e.NoMethod(reject(errors, problem.New(problem.MethodNotAllowed, "This address does not take that method.")))
	return e
}

func reject(errors problem.Writer, err error) gin.HandlerFunc {
	return func(g *gin.Context) { errors.Write(g.Writer, g.Request, err) }
}

// Reply is a successful response.
type Reply struct {
	Status int         // 0 means 200
	ETag   string      // weak validator without W/ and quotes; enables 304 responses
	Header http.Header // further headers
	JSON   any         // encoded as the body
	// writes a body of unknown length; an error closes the connection, so the client sees that the
	// body is incomplete
	Stream func(io.Writer) error
	Body   []byte // encoded body; overrides JSON
	Type   string // media type; "" means application/json
	Coding string // content coding of Body; "" means none
	Done   func() // called after the response was written, even if it is a 304; Body can be reused then
}

// Handler converts handle to a gin handler, which writes the reply or the error.
func Handler(errors problem.Writer, handle func(*gin.Context) (Reply, error)) gin.HandlerFunc {
	return func(g *gin.Context) {
		reply, err := handle(g)
		if reply.Done != nil {
			defer reply.Done()
		}
		if err == nil && reply.Body == nil && reply.JSON != nil {
			reply.Body, err = api.Encode(reply.JSON)
		}
		if err != nil {
			errors.Write(g.Writer, g.Request, err)
			return
		}
		write(g, reply)
	}
}

func (r Reply) status() int { return cmp.Or(r.Status, http.StatusOK) }

func write(g *gin.Context, reply Reply) {
	h := g.Writer.Header()
	for name, values := range reply.Header {
		h[name] = values
	}
	status := reply.status()
	if reply.ETag != "" {
		h["Etag"] = []string{`W/"` + reply.ETag + `"`}
		h["Cache-Control"] = []string{"private, no-cache"}
		h["Vary"] = append(h["Vary"], "Authorization")
		if status == http.StatusOK && matches(g.Request.Header["If-None-Match"], reply.ETag) {
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
		h["Content-Type"] = []string{kind}
		if reply.Coding != "" {
			h.Set("Content-Encoding", reply.Coding)
		}
	}
	if reply.Body != nil {
		h["Content-Length"] = []string{strconv.Itoa(len(reply.Body))}
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

// unknownField extracts the field name from the error of encoding/json, which has no type. Longer
// names are not repeated to the caller, because they may be a misplaced key.
var unknownField = regexp.MustCompile(`^json: unknown field "([A-Za-z]{1,32})"$`)

// Decode decodes the body, one JSON value of at most limit bytes, into out. An empty body leaves
// out unchanged. The error names what is wrong: a field that is unknown or has another type, data
// after the value, or a text that jsonlines.Check rejects.
func Decode(g *gin.Context, out any, limit int64) error {
	body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, limit))
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err == nil {
		err = in.Decode(out)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil
	// The error of package time for JSON other than a string has no type.
	case errors.As(err, new(*time.ParseError)), strings.HasPrefix(err.Error(), "Time.UnmarshalJSON"):
		return problem.New(problem.InvalidParameter, "Times must look like 2027-01-31T00:00:00Z.")
	default:
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
			return problem.Invalid(wrong.Field, "must be a "+wrong.Type.String()+", not a "+wrong.Value)
		}
		if name := unknownField.FindStringSubmatch(err.Error()); name != nil {
			return problem.Invalid(name[1], "is unknown")
		}
		return problem.New(problem.InvalidParameter, "The body must be one JSON object of at most %d bytes.",
			limit).Because(err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return problem.New(problem.InvalidParameter, "The body must be one JSON object and nothing after it.")
	}
	if err := jsonlines.Check(body); err != nil {
		return problem.New(problem.InvalidParameter, "The body is invalid: %v.", err)
	}
	return nil
}

// JSON returns the reply with the JSON of a value, and err.
func JSON(v any, err error) (Reply, error) { return Reply{JSON: v}, err }

// matches reports whether an If-None-Match header matches etag, by weak comparison (RFC 9110,
// section 13.1.2).
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

// Caller returns the caller from the gateway's header. Use it only behind peer.Access; otherwise
// the header is not trustworthy.
func Caller(g *gin.Context) (api.Caller, error) {
	header := g.GetHeader(api.CallerHeader)
	if last := lastCaller.Load(); last != nil && last.header == header {
		return last.caller, nil
	}
	var c api.Caller
	if err := json.Unmarshal([]byte(header), &c); err != nil || c.Tier == "" || c.PageSize < 1 {
		return c, fmt.Errorf("header %s is missing or malformed", api.CallerHeader)
	}
	lastCaller.Store(&parsedCaller{header, c})
	return c, nil
}

// lastCaller is the latest caller that Caller has parsed. The tiers of an installation have a
// handful of different headers.
var lastCaller atomic.Pointer[parsedCaller]

type parsedCaller struct {
	header string
	caller api.Caller
}

// Actor returns the name of the operator who sent the request. Use it only behind peer.Access;
// otherwise the header is not trustworthy.
func Actor(g *gin.Context) (string, error) {
	name, err := api.Line(g.GetHeader(api.ActorHeader), maxActor)
	if err != nil {
		return "", problem.New(problem.InvalidParameter, "Header %s, the name of the operator, %v.", api.ActorHeader, err)
	}
	return name, nil
}

const maxActor = 200 // characters

const (
	stallTime    = 3 * api.UploadStall // without any byte of a file; the gateway, which sees the sender, is stricter
	responseTime = time.Minute         // to send the response after the deadline for the request body
)

// Extend replaces the listener's deadlines, which are for small requests: the request must arrive
// within that time from now, and the response within a minute more. It is necessary even without a
// body, because net/http cancels the context at the read deadline.
func Extend(g *gin.Context, within time.Duration) {
	deadline, c := time.Now().Add(within), http.NewResponseController(g.Writer)
	_ = c.SetReadDeadline(deadline) // fails only in tests without a connection
	_ = c.SetWriteDeadline(deadline.Add(responseTime))
}

// File calls read with the request body, a file from an operator of at most limit bytes, or of any
// size if limit is 0. It returns a problem.Error if the body is too large, stalls or is incomplete,
// and otherwise the error of read. The handler then has api.FileTimeout to respond.
func File(g *gin.Context, limit int64, read func(io.Reader) error) error {
	f := &file{g: g, body: g.Request.Body}
	if limit > 0 {
		f.body = http.MaxBytesReader(g.Writer, g.Request.Body, limit)
	}
	err := read(f)
	tooLarge := new(http.MaxBytesError)
	switch {
	case f.err == nil:
		Extend(g, api.FileTimeout)
		return err
	case errors.As(f.err, &tooLarge):
		return problem.New(problem.InvalidParameter, "The file must have at most %d bytes; send it in parts.", tooLarge.Limit)
	case errors.Is(f.err, os.ErrDeadlineExceeded):
		return problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(f.err)
	}
	return problem.New(problem.InvalidParameter, "The file could not be read to its end.").Because(f.err)
}

// file is a body that must not stall.
type file struct {
	g    *gin.Context
	body io.Reader
	err  error // of body, except io.EOF
}

func (f *file) Read(p []byte) (int, error) {
	Extend(f.g, stallTime)
	n, err := f.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
