// Package flags adds the kinds of flags that several verbs share. Their errors say what to write
// instead; the root command puts the flag's name in front.
package flags

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"opportunity.internal/pkg/api"
)

// UsageError marks a mistake on the command line that only the work of a command can find. The exit
// code is 2.
type UsageError struct{ error }

// Usage returns a UsageError.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Duration adds a flag that takes durations such as 30d, 12h or 90m.
func Duration(f *pflag.FlagSet, p *time.Duration, name, usage string) {
	f.Var((*duration)(p), name, usage)
}

type duration time.Duration

func (d *duration) Set(s string) error {
	parsed, err := api.ParseDuration(s)
	*d = duration(parsed)
	return err
}

func (d *duration) Type() string { return "duration" }

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Number adds a flag that takes a whole number in decimal digits. Other bases and signs are
// rejected.
func Number(f *pflag.FlagSet, p *int, name string, value int, usage string) {
	*p = value
	f.Var((*number)(p), name, usage)
}

type number int

func (n *number) Set(s string) error {
	parsed, err := strconv.ParseUint(s, 10, strconv.IntSize-1)
	if err != nil {
		return errors.New("use a whole number")
	}
	*n = number(parsed)
	return nil
}

func (n *number) Type() string   { return "int" }
func (n *number) String() string { return strconv.Itoa(int(*n)) }

// Choice adds a flag that takes one of the options, which the shell completes. value is the
// default.
func Choice[T ~string](f *pflag.FlagSet, p *T, name string, value T, usage string, options ...T) {
	*p = value
	f.Var(choice[T]{p, options}, name, usage+": "+OneOf(options...))
}

type choice[T ~string] struct {
	value   *T
	options []T
}

func (c choice[T]) Set(s string) error {
	if !slices.Contains(c.options, T(s)) {
		return errors.New("use " + OneOf(c.options...))
	}
	*c.value = T(s)
	return nil
}

func (c choice[T]) Type() string   { return "string" }
func (c choice[T]) String() string { return string(*c.value) }

func (c choice[T]) names() (names []string) {
	for _, o := range c.options {
		names = append(names, string(o))
	}
	return names
}

// Options returns what a flag of Choice takes, nil for any other flag.
func Options(f *pflag.Flag) []string {
	if c, ok := f.Value.(interface{ names() []string }); ok {
		return c.names()
	}
	return nil
}

// OneOf lists options in words: "a, b or c".
func OneOf[T ~string](options ...T) string {
	text := ""
	for i, o := range options {
		switch i {
		case 0:
		case len(options) - 1:
			text += " or "
		default:
			text += ", "
		}
		text += string(o)
	}
	return text
}
