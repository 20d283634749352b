package docsite

import (
	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// stackedTables lets each row become a block on phones: a cell names its column.
type stackedTables struct{}

// Transform implements parser.ASTTransformer.
func (stackedTables) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if table, ok := n.(*extension.Table); ok && entering {
			table.SetAttributeString("class", []byte("list"))
			label(table, reader.Source())
		}
		return ast.WalkContinue, nil
	})
}

// label names the column in each cell of a table but the first of a row.
func label(table *extension.Table, source []byte) {
	var names [][]byte
	for cell := table.FirstChild().FirstChild(); cell != nil; cell = cell.NextSibling() {
		names = append(names, plainText(cell, source))
	}
	for row := table.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
		for i, cell := 0, row.FirstChild(); cell != nil && i < len(names); i, cell = i+1, cell.NextSibling() {
			if i > 0 && len(names[i]) > 0 {
				cell.SetAttributeString("data-label", names[i])
			}
		}
	}
}

func plainText(n ast.Node, source []byte) (out []byte) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out = append(out, n.Segment.Value(source)...)
			if n.SoftLineBreak() || n.HardLineBreak() {
				out = append(out, ' ')
			}
		case *ast.String:
			out = append(out, n.Value...)
		case *ast.FencedCodeBlock:
			out = append(out, n.Lines().Value(source)...)
		}
		return ast.WalkContinue, nil
	})
	return out
}
