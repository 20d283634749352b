package docsite

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// safeLinks replaces links in angle brackets to addresses such as javascript: by their text. The
// renderer drops the addresses of other such links itself.
type safeLinks struct{}

// Transform implements parser.ASTTransformer.
func (safeLinks) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	var unsafe []*ast.AutoLink
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if l, ok := n.(*ast.AutoLink); ok && entering && html.IsDangerousURL(l.URL(reader.Source())) {
			unsafe = append(unsafe, l)
		}
		return ast.WalkContinue, nil
	})
	for _, l := range unsafe {
		l.Parent().ReplaceChild(l.Parent(), l, ast.NewString(l.Label(reader.Source())))
	}
}

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
