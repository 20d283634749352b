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
		if s.name == "ErrorCode" {
			continue // emitParameterTypes declares it beside its constants
		}
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
			of := tsType(p.of)
			if p.of.ref == "Instant" {
				of += " | Date"
			}
			fmt.Fprintf(&b, "%s  %s?: %s | undefined;\n", jsdoc(p.doc, "  "), camel(option(p.name)), of)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// emitParameters returns the names of query parameters and the error codes, which exist at run
// time.
func emitParameters(d description) string {
	return d.parameters(func(name, doc string, entries []field) string {
		out := fmt.Sprintf("\n/** %s */\nexport const %s = Object.freeze({\n", doc, name)
		for _, e := range entries {
			out += fmt.Sprintf("  %s: '%s',\n", e.name, e.doc)
		}
		return out + "});\n"
	})
}

// emitParameterTypes returns the declarations of emitParameters.
func emitParameterTypes(d description) string {
	return d.parameters(func(name, doc string, entries []field) string {
		out := fmt.Sprintf("\n/** %s */\nexport declare const %s: {\n", doc, name)
		for _, e := range entries {
			out += fmt.Sprintf("  readonly %s: '%s';\n", e.name, e.doc)
		}
		return out + "};\n"
	}) + "\n/** A value of `Code`, or one that a later version of the API adds. */\n" +
		"export type Code = (typeof Code)[keyof typeof Code] | (string & {});\n"
}

// parameters returns a file with the constants of emitParameters. An entry of a constant has its
// key as name and its value as doc.
func (d description) parameters(constant func(name, doc string, entries []field) string) string {
	out := fmt.Sprintf("// %s\n", header)
	for _, f := range d.filters {
		var entries []field
		for _, p := range f.parameters {
			entries = append(entries, field{name: camel(option(p.name)), doc: p.name})
		}
		out += constant("parametersOf"+f.name, "The query parameter of each property of "+f.name+".", entries)
	}
	for _, s := range d.schemas {
		if s.name != "ErrorCode" {
			continue
		}
		var entries []field
		for _, v := range s.enum {
			entries = append(entries, field{name: camel(v), doc: v})
		}
		out += constant("Code", "The error codes of the API, for comparison with `OpportunityError.code`.", entries)
	}
	return out
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
