package docsite

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// adjust changes a Markdown document before it is rendered. A link in angle brackets to an address
// such as javascript: becomes its text; the renderer drops the addresses of other such links
// itself. A heading links to itself. Each row of a table can become a block on phones.
type adjust struct{}

// Transform implements parser.ASTTransformer.
func (adjust) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	var nodes []ast.Node // collected first: Walk would follow the changes
	walk(document, func(n ast.Node, entering bool) {
		if entering {
			nodes = append(nodes, n)
		}
	})
	for _, n := range nodes {
		switch n := n.(type) {
		case *ast.AutoLink:
			if html.IsDangerousURL(n.URL(reader.Source())) {
				n.Parent().ReplaceChild(n.Parent(), n, ast.NewString(n.Label(reader.Source())))
			}
		case *ast.Heading:
			if n.Level > 1 {
				link(n)
			}
		case *extension.Table:
			n.SetAttributeString("class", []byte("list"))
			label(n, reader.Source())
		}
	}
}

func walk(n ast.Node, visit func(n ast.Node, entering bool)) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		visit(n, entering)
		return ast.WalkContinue, nil
	})
}

func link(h *ast.Heading) {
	to := ast.NewLink()
	to.Destination = []byte("#" + anchorOf(h))
	for child := h.FirstChild(); child != nil; child = h.FirstChild() {
		to.AppendChild(to, child)
	}
	h.AppendChild(h, to)
}

func anchorOf(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	anchor, _ := id.([]byte)
	return string(anchor)
}

// label names the column in each cell of a table but the first of a row.
func label(table *extension.Table, source []byte) {
	var names []string
	for cell := table.FirstChild().FirstChild(); cell != nil; cell = cell.NextSibling() {
		names = append(names, plainText(cell, source))
	}
	for row := table.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
		for i, cell := 0, row.FirstChild(); cell != nil && i < len(names); i, cell = i+1, cell.NextSibling() {
			if i > 0 && names[i] != "" {
				cell.SetAttributeString("data-label", []byte(names[i]))
			}
		}
	}
}

// plainText returns the words of a node, separated by single spaces.
func plainText(n ast.Node, source []byte) string {
	var out strings.Builder
	walk(n, func(n ast.Node, entering bool) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
			return
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.FencedCodeBlock:
			out.Write(n.Lines().Value(source))
		}
	})
	return strings.Join(strings.Fields(out.String()), " ")
}
