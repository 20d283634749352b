package accountpages

import (
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/people"
)

// sections are the pages to which every page of a signed-in person links.
var sections = []pages.Link{
	{Path: homePath, Label: "Overview"},
	{Path: homePath + "/keys", Label: "Keys"},
	{Path: api.ExplorerPath, Label: "Explorer"},
	{Path: homePath + "/usage", Label: "Usage"},
	{Path: homePath + "/plan", Label: "Plan"},
	{Path: noticesPath, Label: "Notices"},
	{Path: homePath + "/security", Label: "Security"},
}

// layout is the data of the layout.
type layout struct {
	pages.Page

	Person *people.Person // nil if not signed in
	Now    time.Time
}

func newLayout(v *Visit, shown pages.Page) layout {
	l := layout{Page: shown, Now: v.Now}
	if v.full() {
		l.Person = &v.Person
	}
	return l
}

// Frame returns the header and the footer of the page.
func (d layout) Frame() pages.Frame {
	f := pages.Frame{
		Name: siteName, Home: "/", Scripts: []string{"time.js", "once.js", "copy.js"},
		Links: []pages.Link{{Path: "/docs", Label: "Documentation"}, {Path: "/docs/reference", Label: "API reference"}, {Path: homePath, Label: "Your account"}},
		Footer: []pages.Link{
			{Path: "/docs", Label: "Documentation"}, {Path: "/docs/errors", Label: "Error codes"}, {Path: "/status", Label: "Status"},
			{Path: "/terms", Label: "Terms of use"}, {Path: "/privacy", Label: "Privacy"},
		},
	}
	if d.Person == nil {
		return f
	}
	f.Person, f.SignOut, f.TabsLabel = &pages.Link{Label: d.Person.Email}, homePath+"/sign-out", "Account"
	for _, s := range sections {
		s.Current = d.Path == s.Path || s.Path != homePath && d.In(s.Path)
		f.Tabs = append(f.Tabs, s)
	}
	return f
}
