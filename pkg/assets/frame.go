package assets

import (
	"embed"
	"html/template"
)

//go:embed frame/frame.html
var frame embed.FS

// Frame is the data of the header and the footer of a page.
type Frame struct {
	Name, Home string // name of the site, and the page to which it links
	Links      []Link
	Person     *Link  // the signed-in person; nil if there is none
	SignOut    string // action of the form that signs the person out
	TabsLabel  string
	Tabs       []Link
	Footer     []Link
}

// Link is a link in a header or a footer.
type Link struct {
	Path, Label string
	Current     bool // the link leads to the page itself
}

// ParseFrame adds the templates frame-head, frame-header and frame-footer to t. t must have the function asset, which returns the path
// of a static file.
func ParseFrame(t *template.Template) (*template.Template, error) {
	return t.ParseFS(frame, "frame/frame.html")
}
