package docsite

import (
	"html"
	"html/template"
	"strings"
	"sync"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// languages are the titles of code blocks by the language of their fence.
var languages = map[string]string{
	"sh": "Shell", "go": "Go", "js": "TypeScript and JavaScript", "python": "Python", "http": "Request and response",
	"json": "JSON",
	"toml": "TOML", "output": "Output",
}

// codeBlocks renders fenced code blocks as figures whose caption names the language.
type codeBlocks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (codeBlocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		block, ok := n.(*ast.FencedCodeBlock)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		_, _ = w.WriteString(codeBlock(string(block.Language(source)), string(block.Lines().Value(source))))
		return ast.WalkContinue, nil
	})
}

func codeBlock(language, code string) string {
	title, known := languages[language]
	if !known {
		title = "Text"
	}
	return `<figure class="code"><figcaption><span>` + title + `</span></figcaption><pre tabindex="0"><code ` +
		`class="language-` + html.EscapeString(language) + `">` +
		highlight(language, code) + "</code></pre></figure>\n"
}

func codeHTML(language, code string) template.HTML {
	return template.HTML(codeBlock(language, code)) //nolint:gosec // escaped
}

// highlighted are the results of highlight: the pages of all sites have the same blocks.
var highlighted sync.Map

func highlight(language, code string) string {
	key := [2]string{language, code}
	if done, ok := highlighted.Load(key); ok {
		return done.(string) //nolint:forcetypeassert // only texts are stored
	}
	text := html.EscapeString(code)
	// lexers.Get takes milliseconds for a name that it does not know
	if _, known := languages[language]; known && language != "output" {
		if tokens, err := chroma.Coalesce(lexers.Get(language)).Tokenise(nil, code); err == nil {
			text = markup(tokens.Tokens())
		}
	}
	highlighted.Store(key, text)
	return text
}

func markup(tokens []chroma.Token) string {
	var out strings.Builder
	for _, t := range tokens {
		text := html.EscapeString(t.Value)
		if class := classOf(t.Type); class != "" {
			text = `<span class="` + class + `">` + text + "</span>"
		}
		out.WriteString(text)
	}
	return out.String()
}

func classOf(t chroma.TokenType) string {
	switch {
	case t == chroma.NameTag, t == chroma.NameAttribute:
		return "n"
	case t.InCategory(chroma.Keyword):
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "m"
	case t.InCategory(chroma.Comment):
		return "c"
	}
	return ""
}
