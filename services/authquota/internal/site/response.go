package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/assets"
	"opportunity.internal/pkg/problem"
)

func (s *Site) write(v *Visit, shown View) error {
	switch {
	case shown.LeaveTo != "":
		redirect(v, shown.LeaveTo)
		return nil
	case shown.Redirect != "":
		if !ownPath(shown.Redirect) {
			return errors.New("redirect target is not one of our pages")
		}
		if shown.Notice != "" {
			v.leaveNotice(shown.Notice)
		}
		redirect(v, shown.Redirect)
		return nil
	case shown.Call != nil:
		return delegate(v, *shown.Call)
	case shown.Stream != nil:
		return stream(v, shown)
	}
	if shown.Notice == "" {
		shown.Notice = v.notice()
	}
	status := shown.Status
	switch {
	case status == 0 && len(shown.Errors) > 0:
		status = http.StatusUnprocessableEntity
	case status == 0:
		status = http.StatusOK
	}
	if len(shown.FormsTo) > 0 {
		v.Header("Content-Security-Policy", assets.Policy(shown.FormsTo...))
	}
	body, err := s.render(v, shown)
	if err == nil {
		sendPage(v, status, body)
	}
	return err
}

func redirect(v *Visit, to string) {
	v.Header("Location", to)
	v.Status(http.StatusSeeOther)
	v.Writer.WriteHeaderNow()
}

// delegate asks the gateway to make a call.
func delegate(v *Visit, call api.ExplorerCall) error {
	text, err := json.Marshal(call)
	if err != nil {
		return err
	}
	v.Header(api.ExplorerHeader, string(text))
	v.Status(http.StatusNoContent)
	v.Writer.WriteHeaderNow()
	return nil
}

func (s *Site) render(v *Visit, shown View) ([]byte, error) {
	t := s.templates[shown.Template]
	if t == nil {
		return nil, fmt.Errorf("unknown page template %q", shown.Template)
	}
	data := layoutData{
		Title: shown.Title, Notice: shown.Notice, Path: v.Request.URL.Path, Errors: shown.Errors, Data: shown.Data, Now: v.Now,
	}
	if v.full() {
		data.Person = &v.Person
	}
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, "layout.html", data)
	if err == nil {
		s.Errors.Log.LogAttrs(v.Request.Context(), slog.LevelDebug, "page", slog.String("template", shown.Template))
	}
	return b.Bytes(), err
}

func sendPage(v *Visit, status int, body []byte) {
	v.Header("Content-Type", "text/html; charset=utf-8")
	v.Header("Content-Length", strconv.Itoa(len(body)))
	v.Status(status)
	v.Writer.WriteHeaderNow()
	if v.Request.Method != http.MethodHead {
		_, _ = v.Writer.Write(body)
	}
}

// stream writes a file of unknown length. An error before the first byte is shown as a page.
func stream(v *Visit, file View) error {
	v.Header("Content-Type", file.Type)
	v.Header("Content-Disposition", `attachment; filename="`+file.Name+`"`)
	v.Status(http.StatusOK)
	if v.Request.Method == http.MethodHead {
		v.Writer.WriteHeaderNow()
		return nil
	}
	err := file.Stream(v.Writer)
	if err != nil && v.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		v.Writer.Header().Del("Content-Disposition")
	}
	return err
}

// titles maps errors to the titles of their pages.
var titles = map[problem.Code]string{
	problem.NotFound:           "Page not found",
	problem.ServiceUnavailable: "Temporarily unavailable",
	problem.InternalError:      "Something went wrong",
}

// reject shows an error as a page. Driver errors are only logged.
func (s *Site) reject(v *Visit, err error) {
	e := problem.Of(err)
	status := e.Code.Status()
	s.Errors.Report(v.Request.Context(), err)
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
	body, err := s.render(v, View{Template: "error", Title: title, Data: message})
	if err != nil {
		s.Errors.Write(v.Writer, v.Request, err)
		return
	}
	sendPage(v, status, body)
}
