package main

import (
	"fmt"
	"strings"
)

// emitTypeScript returns the declarations of the TypeScript types.
func emitTypeScript(d description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n", header)
	for _, s := range d.schemas {
		name := typeName(s.name)
		b.WriteString("\n" + jsdoc(s.doc, ""))
		switch {
		case s.object:
			fmt.Fprintf(&b, "export interface %s {\n", name)
			for _, f := range s.fields {
				fmt.Fprintf(&b, "%s  %s: %s;\n", jsdoc(f.doc, "  "), f.name, tsType(f.of))
			}
			b.WriteString("}\n")
		case len(s.enum) > 0: // unknown values pass, and editors still complete the known ones
			fmt.Fprintf(&b, "export type %s =\n  | '%s'\n  | (string & {});\n", name, strings.Join(s.enum, "'\n  | '"))
		default:
			fmt.Fprintf(&b, "export type %s = string;\n", name)
		}
	}
	for _, f := range d.filters {
		fmt.Fprintf(&b, "\n%sexport interface %s {\n", jsdoc(f.doc, ""), f.name)
		for _, p := range f.parameters {
			fmt.Fprintf(&b, "%s  %s?: %s | undefined;\n", jsdoc(p.doc, "  "), camel(option(p.name)), tsType(p.of))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// emitParameters returns the names of query parameters and the error codes, which exist at run time.
func emitParameters(d description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n", header)
	for _, f := range d.filters {
		fmt.Fprintf(&b, "\n/** The query parameter of each property of %s. */\nexport const parametersOf%s = Object.freeze({\n", f.name, f.name)
		for _, p := range f.parameters {
			fmt.Fprintf(&b, "  %s: '%s',\n", camel(option(p.name)), p.name)
		}
		b.WriteString("});\n")
	}
	for _, s := range d.schemas {
		if s.name != "ErrorCode" {
			continue
		}
		b.WriteString("\n/** The error codes of the API, for comparison with `OpportunityError.code`. */\nexport const Code = Object.freeze({\n")
		for _, v := range s.enum {
			fmt.Fprintf(&b, "  %s: '%s',\n", camel(v), v)
		}
		b.WriteString("});\n")
	}
	return b.String()
}

func tsType(v value) string {
	out := map[string]string{"string": "string", "boolean": "boolean", "integer": "number", "number": "number"}[v.kind]
	switch {
	case v.ref != "":
		out = typeName(v.ref)
	case v.items != nil:
		out = tsType(*v.items) + "[]"
	}
	if v.nullable {
		out += " | null"
	}
	return out
}

func jsdoc(doc, indent string) string {
	if doc == "" {
		return ""
	}
	if comment := indent + "/** " + strings.Join(strings.Fields(doc), " ") + " */\n"; len(comment) <= 100 {
		return comment
	}
	return indent + "/**\n" + lines(doc, indent+" * ", 96) + "\n" + indent + " */\n"
}

// camel returns a query parameter or error code in camel case.
func camel(name string) string {
	first, rest, _ := strings.Cut(name, "_")
	for _, word := range strings.Split(rest, "_") {
		if word != "" {
			first += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return first
}
