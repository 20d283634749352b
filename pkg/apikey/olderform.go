package apikey

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// OlderForm is the format of keys issued by another system. Operators import the hashes of such keys. The zero value matches no key.
type OlderForm struct{ whole *regexp.Regexp }

// Maximum lengths of a token and of the pattern. The time to match a token is proportional to their product.
const (
	maxOlder   = 256
	maxPattern = 512
)

// ParseOlderForm compiles a regular expression that matches whole keys. It must not match the format of Key; otherwise a Key with a
// typing mistake would be looked up instead of rejected. An empty pattern gives the zero OlderForm.
func ParseOlderForm(pattern string) (OlderForm, error) {
	if pattern == "" {
		return OlderForm{}, nil
	}
	if len(pattern) > maxPattern {
		return OlderForm{}, fmt.Errorf("must have at most %d characters", maxPattern)
	}
	if _, err := regexp.Compile(pattern); err != nil { // on its own: the pattern could close the group below
		return OlderForm{}, err
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return OlderForm{}, err
	}
	form := OlderForm{whole}
	if whole.MatchString("") {
		return OlderForm{}, errors.New("must not match an empty key")
	}
	for _, prefix := range []string{Live, Test} {
		ours, err := matchesOurs(pattern, prefix)
		if err != nil {
			return OlderForm{}, err
		}
		if ours {
			return OlderForm{}, fmt.Errorf("must not match keys of this API, which begin with %s", prefix)
		}
	}
	return form, nil
}

// Set reports whether f is not the zero value.
func (f OlderForm) Set() bool { return f.whole != nil }

// Matches reports whether token has the format.
func (f OlderForm) Matches(token string) bool {
	return f.whole != nil && len(token) <= maxOlder && f.whole.MatchString(token)
}

// CouldMatch reports whether any token with that prefix and suffix could have the format. It may report true if none does.
func (f OlderForm) CouldMatch(prefix, suffix string) bool {
	for i := range len(suffix) + 1 { // prefix and suffix may overlap
		if strings.HasSuffix(prefix, suffix[:i]) && f.Matches(prefix+suffix[i:]) {
			return true
		}
	}
	if f.whole == nil {
		return false
	}
	a, err := compile(f.whole.String())
	if err != nil {
		return true
	}
	at := a.start()
	for _, r := range prefix {
		at = a.step(at, string(r))
	}
	at = a.any(at)
	for _, r := range suffix {
		at = a.step(at, string(r))
	}
	return a.accepts(at)
}

// matchesOurs reports whether the pattern matches any text with the format of a Key, with any checksum.
func matchesOurs(pattern, prefix string) (bool, error) {
	a, err := compile(pattern)
	if err != nil {
		return false, err
	}
	at := a.start()
	for i, c := range Generate(prefix).Reveal() {
		choice := string(c)
		if i >= len(prefix) && c != '_' {
			choice = Alphabet
		}
		at = a.step(at, choice)
	}
	return a.accepts(at), nil
}

// automaton simulates a compiled pattern on a set of characters at each position. It assumes that conditions on adjacent characters
// (\b) hold, so it may match too much.
type automaton struct{ *syntax.Prog }

func compile(pattern string) (automaton, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return automaton{}, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	return automaton{prog}, err
}

func (a automaton) start() map[uint32]bool {
	return reach(a.Prog, []uint32{uint32(a.Start)}) //nolint:gosec // an index of a small program
}

// step returns the instructions reached by reading one character of choice.
func (a automaton) step(at map[uint32]bool, choice string) map[uint32]bool {
	var next []uint32
	for pc := range at {
		for _, r := range choice {
			if inst := &a.Inst[pc]; inst.MatchRune(r) {
				next = append(next, inst.Out)
				break
			}
		}
	}
	return reach(a.Prog, next)
}

// any returns the instructions reached by reading any number of any characters.
func (a automaton) any(at map[uint32]bool) map[uint32]bool {
	for grown := true; grown; {
		next := slices.Collect(maps.Keys(at))
		for pc := range at {
			switch inst := &a.Inst[pc]; inst.Op {
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
				next = append(next, inst.Out)
			}
		}
		reached := reach(a.Prog, next)
		grown, at = len(reached) > len(at), reached
	}
	return at
}

func (a automaton) accepts(at map[uint32]bool) bool {
	for pc := range at {
		if a.Inst[pc].Op == syntax.InstMatch {
			return true
		}
	}
	return false
}

// reach returns the instructions reachable from the given ones without reading a character.
func reach(prog *syntax.Prog, from []uint32) map[uint32]bool {
	reached := map[uint32]bool{}
	for len(from) > 0 {
		pc := from[len(from)-1]
		from = from[:len(from)-1]
		if reached[pc] {
			continue
		}
		reached[pc] = true
		switch inst := &prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			from = append(from, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
			from = append(from, inst.Out)
		}
	}
	return reached
}
