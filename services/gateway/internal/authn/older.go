package authn

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"opportunity.internal/pkg/apikey"
)

// OlderForm is the form of keys that something else issued before us. They are known by the hash that an operator imported. The
// zero value has none.
type OlderForm struct{ whole *regexp.Regexp }

// Bounds of what is matched, and with what: the time that a token takes is proportional to the product.
const (
	maxOlder   = 256
	maxPattern = 512
)

// ParseOlderForm compiles a regular expression that such a key must match from its first character to its last. It must not
// match keys of our own form: one with a typing mistake would be looked up instead of refused. An empty pattern is no form.
func ParseOlderForm(pattern string) (OlderForm, error) {
	if pattern == "" {
		return OlderForm{}, nil
	}
	if len(pattern) > maxPattern {
		return OlderForm{}, fmt.Errorf("must have at most %d characters", maxPattern)
	}
	if _, err := regexp.Compile(pattern); err != nil { // by itself, or it could close the group around it
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
	for _, prefix := range []string{apikey.Live, apikey.Test} {
		ours, err := matchesOurs(pattern, prefix)
		if err != nil {
			return OlderForm{}, err
		}
		if ours {
			return OlderForm{}, fmt.Errorf("must not match keys of our own form, which begin with %s", prefix)
		}
	}
	return form, nil
}

func (f OlderForm) matches(token string) bool {
	return f.whole != nil && len(token) <= maxOlder && f.whole.MatchString(token)
}

// matchesOurs reports whether the pattern matches any text that looks like one of our keys, with whatever checksum. It walks the
// automaton of the pattern with, at each place, every character that a key may have there. Conditions that depend on two
// characters in a row (\b) are taken to hold, so in doubt a pattern is refused.
func matchesOurs(pattern, prefix string) (bool, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return false, err
	}
	at := reach(prog, []uint32{uint32(prog.Start)}) //nolint:gosec // an index of a small program
	for i, c := range apikey.Generate(prefix).Reveal() {
		choice := string(c)
		if i >= len(prefix) && c != '_' {
			choice = apikey.Alphabet
		}
		var next []uint32
		for pc := range at {
			for _, r := range choice {
				if inst := &prog.Inst[pc]; inst.MatchRune(r) {
					next = append(next, inst.Out)
					break
				}
			}
		}
		at = reach(prog, next)
	}
	for pc := range at {
		if prog.Inst[pc].Op == syntax.InstMatch {
			return true, nil
		}
	}
	return false, nil
}

// reach gives the instructions that are reached from others without reading a character.
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
