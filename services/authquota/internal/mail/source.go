package mail

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	"maps"
	"regexp"
	"slices"
	"strings"
	texttemplate "text/template"
)

// A template has a line with the subject, then blocks separated by empty lines: a paragraph, a list
// of lines that start with a hyphen, or a link such as [label](address). Text and HTML are
// generated from it. The block {{.text}} is replaced by paragraphs.
//
//go:embed templates/*.txt layout.html
var files embed.FS

type source struct {
	needs   []string
	subject *texttemplate.Template
	text    *texttemplate.Template
	html    *htmltemplate.Template
}

var sources = readAll()

var names = slices.Sorted(maps.Keys(sources))

func readAll() map[string]source {
	entries, err := files.ReadDir("templates")
	if err != nil {
		panic(err) // embedded
	}
	all := make(map[string]source, len(entries))
	for _, e := range entries {
		text, err := files.ReadFile("templates/" + e.Name())
		if err != nil {
			panic(err)
		}
		name := strings.TrimSuffix(e.Name(), ".txt")
		all[name] = parse(name, string(text))
	}
	return all
}

var (
	action = regexp.MustCompile(`\{\{[^{}]*\}\}`)
	datum  = regexp.MustCompile(`\.([a-z_]+)`)
	linked = regexp.MustCompile(`^\[(.*)\]\((.*)\)$`)
)

// Placeholders for the template functions during parsing. write replaces them with those of the
// Writer.
func noPage(string) string { return "" }
func noOperator() string   { return "" }

func parse(name, written string) source {
	head, body, _ := strings.Cut(strings.TrimSpace(written), "\n\n")
	subject, ok := strings.CutPrefix(head, "Subject: ")
	if !ok {
		panic("mail " + name + " has no subject")
	}
	needs := map[string]bool{}
	for _, a := range action.FindAllString(written, -1) {
		for _, found := range datum.FindAllStringSubmatch(a, -1) {
			needs[found[1]] = true
		}
	}
	var text, html strings.Builder
	for block := range strings.SplitSeq(body, "\n\n") {
		if link := linked.FindStringSubmatch(block); link != nil {
			fmt.Fprintf(&text, "%s:\n%s\n\n", link[1], link[2])
			fmt.Fprintf(&html, `<p><a class="button" href="%s">%s</a></p>`+"\n", link[2], link[1])
			continue
		}
		text.WriteString(block + "\n\n")
		if block == "{{."+paragraphs+"}}" {
			html.WriteString(
				`{{range split .text "\n\n"}}<p>{{range $i, $line := split . "\n"}}{{if $i}}<br>{{end}}{{$line}}{{end}}</p>` +
					"\n{{end}}")
		} else if strings.HasPrefix(block, "- ") {
			html.WriteString("<ul>\n<li>" + strings.ReplaceAll(block[2:], "\n- ", "</li>\n<li>") + "</li>\n</ul>\n")
		} else {
			html.WriteString("<p>" + block + "</p>\n")
		}
	}
	text.WriteString("-- \nOpportunity Data API\n{{page \"\"}}\n")
	layout, err := files.ReadFile("layout.html")
	if err != nil {
		panic(err)
	}
	page := map[string]any{"page": noPage, "operator": noOperator, "split": strings.Split}
	plain := func(s string) *texttemplate.Template {
		return texttemplate.Must(texttemplate.New(name).Option("missingkey=error").Funcs(page).Parse(s))
	}
	framed := htmltemplate.Must(htmltemplate.New(name).Option("missingkey=error").Funcs(page).Parse(string(layout)))
	return source{
		needs: slices.Sorted(maps.Keys(needs)), subject: plain(subject), text: plain(text.String()),
		html: htmltemplate.Must(framed.New("body").Parse(html.String())),
	}
}

func (s source) write(w Writer, to string, data map[string]string) (Letter, error) {
	page := map[string]any{"page": w.Page, "operator": w.operator}
	subject, err := executed(s.subject, page, data)
	if err != nil {
		return Letter{}, err
	}
	text, err := executed(s.text, page, data)
	if err != nil {
		return Letter{}, err
	}
	// Clone, because changing the functions of a template while it executes is a data race.
	html, err := s.html.Clone()
	if err != nil {
		return Letter{}, err
	}
	var b strings.Builder
	err = html.Funcs(page).ExecuteTemplate(&b, s.subject.Name(), struct {
		Subject string
		Data    map[string]string
	}{subject, data})
	return Letter{To: to, Subject: subject, Text: text, HTML: b.String()}, err
}

func executed(t *texttemplate.Template, page map[string]any, data map[string]string) (string, error) {
	t, err := t.Clone()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Funcs(page).Execute(&b, data)
	return b.String(), err
}
