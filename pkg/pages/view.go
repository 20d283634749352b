package pages

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// View is the response to a request: a page, a redirect, a file, or a status without a body.
type View struct {
	// name of the page's template, without extension; if empty, a View without Redirect, LeaveTo
	// and Stream has no body
	Template string
	Title    string
	Data     any
	Status   int         // 0 means 200, or 422 if there are Errors
	Header   http.Header // additional headers
	Errors   []FormError // problems of the submitted form; the page shows the form again with its values
	FormsTo  []string    // origins of other sites that forms of the page lead to
	Redirect string      // 303 to a page of this site
	LeaveTo  string      // 303 to a page of another site, which the handler has verified
	Notice   string      // shown on this page, or after Redirect on the next one

	// a file; an error closes the connection, so that a partial file is not taken for a complete
	// one
	Stream func(io.Writer) error
	Type   string // media type of the file
	Name   string // file name for saving; empty for a script's own use
}

// FormError is a problem with a form field, as a sentence. Field is the ID of the element; empty
// for the whole form.
type FormError struct{ Field, Message string }

// Wrong returns the form again with a problem of a field. An empty field means the whole form.
func (w View) Wrong(field, message string) View {
	w.Errors = append(w.Errors, FormError{field, message})
	return w
}

// TooMany returns the form again with the delay before the next attempt.
func (w View) TooMany(wait time.Duration) View {
	seconds := int(math.Ceil(wait.Seconds()))
	howLong := fmt.Sprintf("%d seconds", seconds)
	if seconds > 90 {
		howLong = fmt.Sprintf("%d minutes", (seconds+59)/60)
	}
	w.Status, w.Header = http.StatusTooManyRequests, http.Header{"Retry-After": {strconv.Itoa(seconds)}}
	return w.Wrong("", "Too many attempts. Wait "+howLong+", then try again.")
}

func (w View) status() int {
	switch {
	case w.Status != 0:
		return w.Status
	case len(w.Errors) > 0:
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// Page is the data of the layout. A site embeds it and adds a method or field Frame of type Frame.
type Page struct {
	Site   string
	Title  string
	Path   string
	Notice string
	Errors []FormError
	Data   any
}

// Wrong returns the problem of a field, or an empty string.
func (p Page) Wrong(field string) string {
	for _, e := range p.Errors {
		if e.Field == field {
			return e.Message
		}
	}
	return ""
}

// Aria returns the attributes that link an input to its hints and its problem. hints are IDs of
// additional elements.
func (p Page) Aria(field string, hints ...string) template.HTMLAttr {
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

// In reports whether the page is at one of the paths or below it.
func (p Page) In(paths ...string) bool {
	for _, at := range paths {
		if p.Path == at || strings.HasPrefix(p.Path, at+"/") {
			return true
		}
	}
	return false
}

//go:embed layout
var layouts embed.FS

// Frame is the data of the header and the footer of a page, and of what its head includes.
type Frame struct {
	Name, Home string // name of the site, and the page to which it links
	Links      []Link
	Person     *Link  // the signed-in person; nil if there is none
	SignOut    string // action of the form that signs the person out
	TabsLabel  string
	Tabs       []Link
	Footer     []Link

	Styles, Scripts []string // static files
	Keys            bool     // single keys act
}

// Link is a link in a header or a footer.
type Link struct {
	Path, Label string
	Current     bool // the link leads to the page itself
}

// ParseFrame adds the templates frame-head, frame-header and frame-footer to t, for a site with a
// layout of its own. t must have the function asset, which returns the path of a static file.
func ParseFrame(t *template.Template) (*template.Template, error) {
	return t.ParseFS(layouts, "layout/frame.html")
}

// Policy returns the content security policy of pages: own resources only, and form targets on this
// site and formsTo.
func Policy(formsTo ...string) string {
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action " + strings.Join(append([]string{"'self'"}, formsTo...), " ") +
		"; frame-ancestors 'none'; base-uri 'none'"
}

// Headers returns the headers of every page.
func Headers(https bool) map[string]string {
	h := map[string]string{
		"Content-Security-Policy": Policy(),
		// not no-referrer: browsers would send forms with the origin "null", which the origin check
		// rejects
		"Referrer-Policy":              "same-origin",
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
	}
	if https {
		h["Strict-Transport-Security"] = "max-age=31536000"
	}
	return h
}
