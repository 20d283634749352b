package main

import (
	"fmt"
	"strings"
)

// emitPython returns the source of the Python types.
func emitPython(d description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\"\"\"Types of the API.\"\"\"\n\nfrom __future__ import annotations\n\nfrom typing import TypedDict\n", header)
	for _, s := range d.schemas {
		name := typeName(s.name)
		if s.object {
			fmt.Fprintf(&b, "\n\nclass %s(TypedDict):\n%s", name, docstring(s.doc, "    "))
			for _, f := range s.fields {
				fmt.Fprintf(&b, "\n    %s: %s\n%s", f.name, pyType(f.of), docstring(f.doc, "    "))
			}
			continue
		}
		if s.name != "ErrorCode" {
			doc := s.doc
			if len(s.enum) > 0 {
				doc += " One of `" + strings.Join(s.enum, "`, `") + "`; a later version of the API may add values."
			}
			fmt.Fprintf(&b, "\n%s = str\n%s", name, docstring(doc, ""))
			continue
		}
		b.WriteString("\n\nclass Code:\n    \"\"\"The error codes of the API, for comparison with `OpportunityError.code`.\"\"\"\n\n")
		for _, v := range s.enum {
			fmt.Fprintf(&b, "    %s = \"%s\"\n", strings.ToUpper(v), v)
		}
	}
	for _, f := range d.filters {
		fmt.Fprintf(&b, "\n\nclass %s(TypedDict, total=False):\n%s", f.name, docstring(f.doc, "    "))
		for _, p := range f.parameters {
			p.of.nullable = true
			fmt.Fprintf(&b, "\n    %s: %s\n%s", option(p.name), pyType(p.of), docstring(p.doc, "    "))
		}
	}
	return b.String()
}

func pyType(v value) string {
	out := map[string]string{"string": "str", "boolean": "bool", "integer": "int", "number": "float"}[v.kind]
	switch {
	case v.ref != "":
		out = typeName(v.ref)
	case v.items != nil:
		out = "list[" + pyType(*v.items) + "]"
	}
	if v.nullable {
		out += " | None"
	}
	return out
}

func docstring(doc, indent string) string {
	if doc == "" {
		return ""
	}
	return indent + `"""` + strings.TrimPrefix(lines(doc, indent, 92), indent) + `"""` + "\n"
}
