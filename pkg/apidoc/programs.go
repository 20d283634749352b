package apidoc

import (
	"bytes"
	"embed"
	"encoding/json"
	"strconv"
	"strings"
	"text/template"
)

// Program is a call as a program. It reads the address of the service and the key from the
// environment variables OPPORTUNITY_URL and OPPORTUNITY_KEY.
type Program struct{ Title, Language, Code string }

// Title and language of the programs.
var languages = []struct{ title, language, file string }{
	{"curl", "sh", "call.sh.tmpl"}, {"Go", "go", "call.go.tmpl"}, {"TypeScript and JavaScript", "js", "call.mjs.tmpl"},
	{"Python", "python", "call.py.tmpl"},
}

//go:embed programs
var programs embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"shell": shellQuote, "go": goValue, "goName": exported, "js": jsValue, "jsName": camel, "python": pythonValue,
	"pythonName": option,
}).ParseFS(programs, "programs/*"))

// Programs returns the call with curl and with each SDK. It returns only curl if the SDKs cannot
// send the call: they send no value of another type, and they take entity tags from their caches.
func (c Call) Programs() ([]Program, error) {
	shown := languages
	if !c.sdk() {
		shown = languages[:1]
	}
	var out []Program
	for _, l := range shown {
		var code bytes.Buffer
		if err := templates.ExecuteTemplate(&code, l.file, programData{c}); err != nil {
			return nil, err
		}
		out = append(out, Program{l.title, l.language, code.String()})
	}
	return out, nil
}

func (c Call) sdk() bool {
	for _, in := range []string{"path", "query"} {
		for _, a := range c.sent(in) {
			if !a.fits() {
				return false
			}
		}
	}
	return len(c.sent("header")) == 0
}

// programData is the data of a program's template.
type programData struct{ call Call }

// Path returns the escaped path for a double-quoted word of a shell.
func (d programData) Path() string { return strings.ReplaceAll(d.call.path(), "$", "%24") }

func (d programData) Arguments() []argument { return d.call.sent("query") }
func (d programData) Headers() []argument   { return d.call.sent("header") }

// ID returns the path parameter as an argument, and false if there is none.
func (d programData) ID() *argument {
	if in := d.call.sent("path"); len(in) > 0 {
		return &in[0]
	}
	return nil
}

// Kind returns the method of the SDKs: opportunities, search, opportunity, history or changes.
func (d programData) Kind() string {
	switch d.call.Operation.ID {
	case "getOpportunity":
		return "opportunity"
	case "getVerificationHistory":
		return "history"
	case "searchOpportunities":
		return "search"
	case "listChanges":
		return "changes"
	}
	return "opportunities"
}

// OnePage reports whether the call selects a page. The SDKs otherwise read all pages.
func (d programData) OnePage() bool {
	return d.call.Values["page"] != "" || d.call.Values["limit"] != ""
}

func shellQuote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_.,:/=@%+", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// literal returns the value in a language, with the name of a boolean and the quoted form of a
// text.
func (a argument) literal(boolean, quoted string) string {
	switch {
	case a.Resolved.Is("boolean"):
		return boolean
	case a.Resolved.Is("integer"):
		return a.Value
	}
	return quoted
}

func goValue(a argument) string {
	return a.literal("opportunity."+exported(a.Value), strconv.Quote(a.Value))
}

func pythonValue(a argument) string { return a.literal(exported(a.Value), jsonQuote(a.Value)) }

func jsValue(a argument) string {
	quoted := jsonQuote(a.Value)
	if !strings.ContainsAny(a.Value, `'"`) && len(quoted) == len(a.Value)+2 {
		quoted = "'" + a.Value + "'"
	}
	return a.literal(a.Value, quoted)
}

// jsonQuote returns a string literal of JSON, which is also one of JavaScript and Python.
func jsonQuote(text string) string {
	var b bytes.Buffer
	in := json.NewEncoder(&b)
	in.SetEscapeHTML(false)
	_ = in.Encode(text) // a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

func option(parameter string) string {
	if parameter == "limit" {
		return "page_size"
	}
	return parameter
}

func exported(parameter string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(option(parameter), "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

func camel(parameter string) string {
	name := exported(parameter)
	return strings.ToLower(name[:1]) + name[1:]
}
