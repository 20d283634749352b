package api

import (
	_ "embed" // the codes
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// codeList is a list of standard codes.
type codeList struct {
	What  string
	Codes []string
	// for codes that people write by mistake, such as those of languages and domains, and former
	// ones
	Meant map[string]string
}

//go:embed codes.json
var codesJSON []byte

// codes has the codes of ISO 3166-1, with XK, which the European Union and others use for Kosovo,
// and those of ISO 4217 for money, with those withdrawn since 2022, which older pages still name.
var codes = sync.OnceValue(func() (lists struct{ Countries, Currencies codeList }) {
	if err := json.Unmarshal(codesJSON, &lists); err != nil {
		panic(err) // the file is constant
	}
	return lists
})

// Country records a problem unless value is the code of a country in ISO 3166-1 alpha-2, or XK.
func (p *Problems) Country(field, value string) { p.code(field, value, codes().Countries) }

// Currency records a problem unless value is the code of a currency in ISO 4217.
func (p *Problems) Currency(field, value string) { p.code(field, value, codes().Currencies) }

func (p *Problems) code(field, value string, list codeList) {
	if slices.Contains(list.Codes, value) {
		return
	}
	upper := strings.ToUpper(strings.TrimSpace(value))
	instead := list.Meant[upper]
	if slices.Contains(list.Codes, upper) {
		instead = upper
	}
	if instead != "" {
		instead = ": write " + instead
	}
	p.Add(field, "must be %s; %q is none%s", list.What, short(value), instead)
}
