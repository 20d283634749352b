package main

import (
	"fmt"
	"regexp"
	"strings"
)

// emitGo returns the unformatted source of the Go types.
func emitGo(d description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n\npackage opportunity\n\nimport (\n\"net/url\"\n\"time\"\n)\n", header)
	for _, s := range d.schemas {
		name := typeName(s.name)
		fmt.Fprintf(&b, "\n%s\n", lines(sentence(name, s.doc), "// ", 97))
		if !s.object {
			fmt.Fprintf(&b, "type %s string\n", name)
			if len(s.enum) > 0 {
				fmt.Fprintf(&b, "\n// Values of %s. A later version of the API may add values.\nconst (\n", name)
				for _, v := range s.enum {
					fmt.Fprintf(&b, "%s%s %s = %q\n", name, exported(v), name, v)
				}
				b.WriteString(")\n")
			}
			continue
		}
		fmt.Fprintf(&b, "type %s struct {\n", name)
		for _, f := range s.fields {
			if f.doc != "" {
				b.WriteString(lines(f.doc, "// ", 93) + "\n")
			}
			fmt.Fprintf(&b, "%s %s `json:%q`\n", exported(f.name), goType(f.of), f.name)
		}
		b.WriteString("}\n")
	}
	for _, f := range d.filters {
		emitGoFilter(&b, f)
	}
	return b.String()
}

func emitGoFilter(b *strings.Builder, f filter) {
	fmt.Fprintf(b, "\n// %s\ntype %s struct {\n", f.doc, f.name)
	for _, p := range f.parameters {
		p.of.nullable = p.of.kind == "boolean"
		fmt.Fprintf(b, "%s\n%s %s\n", lines(p.doc, "// ", 93), exported(option(p.name)), goType(p.of))
	}
	fmt.Fprintf(b, "}\n\n// query returns the query parameters of f.\nfunc (f %s) query() url.Values {\nq := query{}\n",
		f.name)
	for _, p := range f.parameters {
		set := map[string]string{"boolean": "tri", "integer": "integer"}[p.of.kind]
		value := "f." + exported(option(p.name))
		if set == "" {
			set, value = "text", "string("+value+")"
			if p.of.kind == "string" {
				value = "f." + exported(option(p.name))
			}
		}
		fmt.Fprintf(b, "q.%s(%q, %s)\n", set, p.name, value)
	}
	b.WriteString("return url.Values(q)\n}\n")
}

func goType(v value) string {
	pointer := ""
	if v.nullable {
		pointer = "*"
	}
	switch {
	case v.ref != "":
		return pointer + typeName(v.ref)
	case v.items != nil:
		return "[]" + goType(*v.items)
	case v.format == "date-time":
		return pointer + "time.Time"
	case v.kind == "boolean" && v.nullable:
		return "Tri"
	}
	return pointer + map[string]string{"string": "string", "boolean": "bool", "integer": "int",
		"number": "float64"}[v.kind]
}

// typeName returns the name of a schema's type in all SDKs.
func typeName(schema string) string {
	if schema == "ErrorCode" {
		return "Code"
	}
	return schema
}

// option returns the name of a query parameter in the SDKs.
func option(parameter string) string {
	if parameter == "limit" {
		return "page_size" // not to be confused with rate limits
	}
	return parameter
}

// exported returns a JSON name, parameter or enum value as an exported Go name.
func exported(name string) string {
	var b strings.Builder
	for _, word := range words.FindAllString(name, -1) {
		if initialism, ok := initialisms[strings.ToLower(word)]; ok {
			b.WriteString(initialism)
		} else {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

var (
	words       = regexp.MustCompile(`[A-Z]?[a-z0-9]+`)
	initialisms = map[string]string{"api": "API", "id": "ID", "url": "URL", "urls": "URLs"}
)
