package mail

import (
	"embed"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"regexp"
	"strings"
	texttemplate "text/template"
)

// A template has a line with the subject, then blocks separated by empty lines: a paragraph, a list
// of lines that start with a hyphen, or a link such as [label](address). Text and HTML are
// generated from it. The block {{.text}} is replaced by paragraphs. {{.site}} is the public URL,
// and {{.operator}} names the operator.
//
//go:embed templates/*.txt layout.html
var files embed.FS

type source struct {
	subject *texttemplate.Template
	text    *texttemplate.Template
	html    *htmltemplate.Template
}

var sources = readAll()

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

var linked = regexp.MustCompile(`^\[(.*)\]\((.*)\)$`)

func parse(name, written string) source {
	head, body, _ := strings.Cut(strings.TrimSpace(written), "\n\n")
	subject, ok := strings.CutPrefix(head, "Subject: ")
	if !ok {
		panic("mail " + name + " has no subject")
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
	text.WriteString("-- \nOpportunity Data API\n{{.site}}\n")
	layout, err := files.ReadFile("layout.html")
	if err != nil {
		panic(err)
	}
	plain := func(s string) *texttemplate.Template {
		return texttemplate.Must(texttemplate.New(name).Option("missingkey=error").Parse(s))
	}
	framed := htmltemplate.Must(htmltemplate.New(name).Option("missingkey=error").
		Funcs(htmltemplate.FuncMap{"split": strings.Split}).Parse(string(layout)))
	return source{
		subject: plain(subject), text: plain(text.String()), html: htmltemplate.Must(framed.New("body").Parse(html.String())),
	}
}

func (s source) write(data map[string]string) (Letter, error) {
	var subject, text, html strings.Builder
	if err := errors.Join(s.subject.Execute(&subject, data), s.text.Execute(&text, data)); err != nil {
		return Letter{}, err
	}
	err := s.html.ExecuteTemplate(&html, s.subject.Name(), struct {
		Subject string
		Data    map[string]string
	}{subject.String(), data})
	return Letter{Subject: subject.String(), Text: text.String(), HTML: html.String()}, err
}
