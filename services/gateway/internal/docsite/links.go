package docsite

import (
	"net/url"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// safeLinks replaces links to addresses that are neither relative nor http, https or mailto by
// their text.
type safeLinks struct{}

// Transform implements parser.ASTTransformer.
func (safeLinks) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	var unsafe []ast.Node
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if entering && !isSafe(destination(n, reader.Source())) {
			unsafe = append(unsafe, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range unsafe {
		parent := n.Parent()
		if link, ok := n.(*ast.AutoLink); ok {
			parent.InsertBefore(parent, n, ast.NewString(link.Label(reader.Source())))
		}
		for child := n.FirstChild(); child != nil; child = n.FirstChild() {
			parent.InsertBefore(parent, n, child)
		}
		parent.RemoveChild(parent, n)
	}
}

// permalinks makes each heading below the first level a link to itself.
type permalinks struct{}

// Transform implements parser.ASTTransformer.
func (permalinks) Transform(document *ast.Document, _ text.Reader, _ parser.Context) {
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		id, _ := n.AttributeString("id")
		anchor, found := id.([]byte)
		if !ok || !found || h.Level == 1 {
			continue
		}
		link := ast.NewLink()
		link.Destination = append([]byte("#"), anchor...)
		for child := h.FirstChild(); child != nil; child = h.FirstChild() {
			link.AppendChild(link, child)
		}
		h.AppendChild(h, link)
	}
}

// destination returns the address of a link or an image, and nil for another node.
func destination(n ast.Node, source []byte) []byte {
	switch n := n.(type) {
	case *ast.Link:
		return n.Destination
	case *ast.Image:
		return n.Destination
	case *ast.AutoLink:
		return n.URL(source)
	}
	return nil
}

func isSafe(address []byte) bool {
	u, err := url.Parse(string(address))
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "", "http", "https", "mailto":
		return true
	}
	return false
}
