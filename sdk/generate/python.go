package main

import (
	"fmt"
	"strings"
)

// emitPython returns the source of the Python types.
func emitPython(d description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\"\"\"Types of the API.\"\"\"\n\nfrom __future__ import annotations\n\n"+
		"from datetime import date\nfrom typing import Final, Literal, TypeAlias, TypedDict\n\n__all__ = [\n", header)
	for _, s := range d.schemas {
		fmt.Fprintf(&b, "    %q,\n", typeName(s.name))
	}
	for _, f := range d.filters {
		fmt.Fprintf(&b, "    %q,\n", f.name)
	}
	b.WriteString("]\n")
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
			of, doc := "str", s.doc
			if len(s.enum) > 0 {
				of, doc = `Literal["`+strings.Join(s.enum, `", "`)+`"]`,
					doc+" A later version of the API may add values."
			}
			fmt.Fprintf(&b, "\n%s: TypeAlias = %s\n%s", name, of, docstring(doc, ""))
			continue
		}
		b.WriteString("\n\nclass Code:\n    \"\"\"The error codes of the API, for comparison with " +
			"`OpportunityError.code`.\"\"\"\n\n")
		for _, v := range s.enum {
			fmt.Fprintf(&b, "    %s: Final = \"%s\"\n", strings.ToUpper(v), v)
		}
	}
	for _, f := range d.filters {
		fmt.Fprintf(&b, "\n\nclass %s(TypedDict, total=False):\n%s", f.name, docstring(f.doc, "    "))
		for _, p := range f.parameters {
			of := pyType(p.of)
			if p.of.ref == "Instant" {
				of += " | date" // which datetime extends
			}
			fmt.Fprintf(&b, "\n    %s: %s | None\n%s", option(p.name), of, docstring(p.doc, "    "))
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
