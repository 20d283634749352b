package site

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/assets"
)

// sections are the pages to which every page of a signed-in person links.
var sections = []assets.Link{
	{Path: Home, Label: "Overview"},
	{Path: Home + "/keys", Label: "Keys"},
	{Path: api.ExplorerPath, Label: "Explorer"},
	{Path: Home + "/usage", Label: "Usage"},
	{Path: Home + "/plan", Label: "Plan"},
	{Path: Home + "/security", Label: "Security"},
}

// Frame returns the header and the footer of the page.
func (d layoutData) Frame() assets.Frame {
	f := assets.Frame{
		Name: "Opportunity Data API", Home: "/",
		Links: []assets.Link{{Path: "/docs", Label: "Documentation"}, {Path: "/docs/reference", Label: "API reference"}, {Path: Home, Label: "Your account"}},
		Footer: []assets.Link{
			{Path: "/docs", Label: "Documentation"}, {Path: "/docs/errors", Label: "Error codes"}, {Path: "/status", Label: "Status"},
			{Path: "/terms", Label: "Terms of use"}, {Path: "/privacy", Label: "Privacy"},
		},
	}
	if d.Person == nil {
		return f
	}
	f.Person, f.SignOut, f.TabsLabel = &assets.Link{Label: d.Person.Email}, Home+"/sign-out", "Account"
	for _, s := range sections {
		s.Current = d.In(s.Path)
		f.Tabs = append(f.Tabs, s)
	}
	return f
}
