package pages

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/assets"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// view is the response to a request: a page, a redirect or a file.
type view struct {
	Template string // name of a file in templates/, without extension
	Title    string
	Data     any
	Status   int         // 0 means 200, or 422 if there are Errors
	Errors   []formError // problems of the submitted form; the page shows the form again with its values
	Redirect string      // 303 to one of our own pages
	LeaveTo  string      // 303 to a page of the payment processor
	Leaves   bool        // a form of the page leads to the payment processor
	Notice   string      // shown on this page, or after Redirect on the next one

	Body   []byte                // a file instead of a template
	Stream func(io.Writer) error // or a large file; an error closes the connection, so that a partial file is not taken for a complete one
	Type   string                // media type of the file
	Name   string                // file name for saving; empty to display it
}

// formError is a problem with a form field, as a sentence. An empty Field means the whole form.
type formError struct{ Field, Message string }

// shown is the data of the layout.
type shown struct {
	Title  string
	Notice string
	Person *account.Person // nil if not signed in
	Path   string
	Errors []formError
	Data   any
	Now    time.Time
}

// Wrong returns the problem of a field, or an empty string.
func (p shown) Wrong(field string) string {
	for _, e := range p.Errors {
		if e.Field == field {
			return e.Message
		}
	}
	return ""
}

// Aria returns the attributes that link an input to its hints and its problem. hints are IDs of additional elements.
func (p shown) Aria(field string, hints ...string) template.HTMLAttr {
	wrong := p.Wrong(field) != ""
	if wrong {
		hints = append(hints, field+"-error")
	}
	var attributes []string
	if wrong {
		attributes = append(attributes, `aria-invalid="true"`)
	}
	if len(hints) > 0 {
		attributes = append(attributes, `aria-describedby="`+template.HTMLEscapeString(strings.Join(hints, " "))+`"`)
	}
	return template.HTMLAttr(strings.Join(attributes, " ")) //nolint:gosec // field names are constants
}

// In reports whether the page is at path or below it.
func (p shown) In(path string) bool {
	return p.Path == path || path != home && strings.HasPrefix(p.Path, path+"/")
}

// page adapts a handler to gin. It is the only code that sets a status or writes a page.
func (s *Site) page(level access, handle handler) gin.HandlerFunc {
	return func(g *gin.Context) {
		for name, value := range s.headers {
			g.Header(name, value)
		}
		v := &visit{Context: g, now: s.Now().UTC()}
		answer, err := s.answer(v, level, handle)
		if err == nil {
			err = s.write(v, answer)
		}
		if err != nil {
			s.reject(v, err)
		}
	}
}

func (s *Site) answer(v *visit, level access, handle handler) (answer view, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	if err := s.origins.Check(v.Request); err != nil {
		return view{
			Template: "error", Title: "This form came from another site", Status: http.StatusForbidden,
			Data: "Your browser reports that another site sent this form. Reload the page and submit it again.",
		}, nil
	}
	v.Request.Body = http.MaxBytesReader(v.Writer, v.Request.Body, maxForm)
	if err := v.Request.ParseForm(); err != nil {
		return view{}, problem.New(problem.InvalidParameter, "The form could not be read.").Because(err)
	}
	elsewhere, err := s.enter(v, level)
	if err != nil || elsewhere != "" {
		return view{Redirect: elsewhere}, err
	}
	return handle(s, v)
}

func (s *Site) write(v *visit, answer view) error {
	switch {
	case answer.LeaveTo != "":
		if !s.mayLeaveTo(answer.LeaveTo) {
			return errors.New("billing returned a URL that is not on the payment processor")
		}
		redirect(v, answer.LeaveTo)
		return nil
	case answer.Redirect != "":
		if !ownPath(answer.Redirect) {
			return errors.New("redirect target is not one of our pages")
		}
		if answer.Notice != "" {
			v.leaveNotice(answer.Notice)
		}
		redirect(v, answer.Redirect)
		return nil
	case answer.Stream != nil:
		return stream(v, answer)
	case answer.Body != nil:
		saveAs(v, answer.Name)
		send(v, max(answer.Status, http.StatusOK), answer.Type, answer.Body)
		return nil
	}
	if answer.Notice == "" {
		answer.Notice = v.notice()
	}
	status := answer.Status
	switch {
	case status == 0 && len(answer.Errors) > 0:
		status = http.StatusUnprocessableEntity
	case status == 0:
		status = http.StatusOK
	}
	if answer.Leaves {
		v.Header("Content-Security-Policy", assets.Policy(processorOrigins...))
	}
	body, err := s.render(v, answer)
	if err == nil {
		send(v, status, "text/html; charset=utf-8", body)
	}
	return err
}

func redirect(v *visit, to string) {
	v.Header("Location", to)
	v.Status(http.StatusSeeOther)
	v.Writer.WriteHeaderNow()
}

func (s *Site) render(v *visit, answer view) ([]byte, error) {
	t := s.templates[answer.Template]
	if t == nil {
		return nil, fmt.Errorf("unknown page template %q", answer.Template)
	}
	p := shown{
		Title: answer.Title, Notice: answer.Notice, Path: v.Request.URL.Path, Errors: answer.Errors, Data: answer.Data, Now: v.now,
	}
	if v.full() {
		p.Person = &v.Person
	}
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, "layout.html", p)
	if err == nil {
		s.Log.LogAttrs(v.Request.Context(), slog.LevelDebug, "page", slog.String("template", answer.Template))
	}
	return b.Bytes(), err
}

func send(v *visit, status int, kind string, body []byte) {
	v.Header("Content-Type", kind)
	v.Header("Content-Length", strconv.Itoa(len(body)))
	v.Status(status)
	v.Writer.WriteHeaderNow()
	if v.Request.Method != http.MethodHead {
		_, _ = v.Writer.Write(body)
	}
}

func saveAs(v *visit, name string) {
	if name != "" {
		v.Header("Content-Disposition", `attachment; filename="`+name+`"`)
	}
}

// stream writes a file of unknown length. An error before the first byte is shown as a page.
func stream(v *visit, answer view) error {
	v.Header("Content-Type", answer.Type)
	saveAs(v, answer.Name)
	v.Status(http.StatusOK)
	if v.Request.Method == http.MethodHead {
		v.Writer.WriteHeaderNow()
		return nil
	}
	err := answer.Stream(v.Writer)
	if err != nil && v.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		v.Writer.Header().Del("Content-Disposition")
	}
	return err
}

// reject shows an error as a page. Driver errors are only logged.
func (s *Site) reject(v *visit, err error) {
	e := problem.Of(err)
	status := e.Code.Status()
	if status >= http.StatusInternalServerError && v.Request.Context().Err() == nil {
		s.Log.LogAttrs(v.Request.Context(), slog.LevelError, "page failed", slog.String("code", string(e.Code)), slog.String("error", err.Error()))
	}
	titles := map[problem.Code]string{
		problem.NotFound:           "Page not found",
		problem.ServiceUnavailable: "Temporarily unavailable",
		problem.InternalError:      "Something went wrong",
	}
	title, message := titles[e.Code], e.Message
	if title == "" {
		title = "This request failed"
	}
	if e.Code == problem.InternalError {
		message = "Something failed on our side. Try again in a moment."
	}
	if e.RetryAfter > 0 {
		v.Header("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	body, err := s.render(v, view{Template: "error", Title: title, Data: message})
	if err != nil {
		s.Errors.Write(v.Writer, v.Request, err)
		return
	}
	send(v, status, "text/html; charset=utf-8", body)
}
