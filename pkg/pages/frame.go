package pages

import (
	"embed"
	"html/template"
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
