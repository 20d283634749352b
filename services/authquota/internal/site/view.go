package site

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/people"
)

// View is the response to a request: a page, a redirect or a file.
type View struct {
	Template string // name of the page's template, without extension
	Title    string
	Data     any
	Status   int         // 0 means 200, or 422 if there are Errors
	Errors   []FormError // problems of the submitted form; the page shows the form again with its values
	Redirect string      // 303 to one of our own pages
	LeaveTo  string      // 303 to a page of another site, which the handler has verified
	FormsTo  []string    // origins of other sites that forms of the page lead to
	Notice   string      // shown on this page, or after Redirect on the next one

	Call *api.ExplorerCall // a call that the gateway makes before it requests the page again, with the result

	Stream func(io.Writer) error // a file; an error closes the connection, so that a partial file is not taken for a complete one
	Type   string                // media type of the file
	Name   string                // file name for saving
}

// FormError is a problem with a form field, as a sentence. An empty Field means the whole form.
type FormError struct{ Field, Message string }

// Wrong returns the form again with a problem of a field. An empty field means the whole form.
func (w View) Wrong(field, message string) View {
	w.Errors = append(w.Errors, FormError{field, message})
	return w
}

// TooMany returns the form again with the delay before the next attempt.
func TooMany(v *Visit, form View, wait time.Duration) View {
	seconds := int(math.Ceil(wait.Seconds()))
	v.Header("Retry-After", strconv.Itoa(seconds))
	howLong := fmt.Sprintf("%d seconds", seconds)
	if seconds > 90 {
		howLong = fmt.Sprintf("%d minutes", (seconds+59)/60)
	}
	form.Status = http.StatusTooManyRequests
	return form.Wrong("", "Too many attempts. Wait "+howLong+", then try again.")
}

// layoutData is the data of the layout.
type layoutData struct {
	Title  string
	Notice string
	Person *people.Person // nil if not signed in
	Path   string
	Errors []FormError
	Data   any
	Now    time.Time
}

// Wrong returns the problem of a field, or an empty string.
func (d layoutData) Wrong(field string) string {
	for _, e := range d.Errors {
		if e.Field == field {
			return e.Message
		}
	}
	return ""
}

// Aria returns the attributes that link an input to its hints and its problem. hints are IDs of additional elements.
func (d layoutData) Aria(field string, hints ...string) template.HTMLAttr {
	wrong := d.Wrong(field) != ""
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
func (d layoutData) In(path string) bool {
	return d.Path == path || path != Home && strings.HasPrefix(d.Path, path+"/")
}
