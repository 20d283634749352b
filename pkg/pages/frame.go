package pages

import (
	"embed"
	"html/template"
	"strings"
)

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
