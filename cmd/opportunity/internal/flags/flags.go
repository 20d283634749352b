// Package flags adds the kinds of flags that several verbs share: Duration, Number and Choice.
// Their errors say what to write instead; the root command puts the flag's name in front. A
// UsageError is a mistake on the command line that only the work of a command can find.
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

// value is a flag of one of these kinds.
type value[T any] struct {
	p       *T
	kind    string
	parse   func(string) (T, error)
	options []string // of Choice
}

func (v value[T]) Set(s string) (err error) {
	*v.p, err = v.parse(s)
	return err
}

func (v value[T]) Type() string    { return v.kind }
func (v value[T]) names() []string { return v.options }

// String returns the value; the zero duration is empty.
func (v value[T]) String() string {
	if d, is := any(*v.p).(time.Duration); is && d == 0 {
		return ""
	}
	return fmt.Sprint(*v.p)
}

// Duration adds a flag that takes durations such as 30d, 12h or 90m.
func Duration(f *pflag.FlagSet, p *time.Duration, name, usage string) {
	f.Var(value[time.Duration]{p, "duration", api.ParseDuration, nil}, name, usage)
}

// Number adds a flag that takes a whole number in decimal digits. Other bases and signs are
// rejected.
func Number(f *pflag.FlagSet, p *int, name string, start int, usage string) {
	*p = start
	f.Var(value[int]{p, "int", func(s string) (int, error) {
		n, err := strconv.ParseUint(s, 10, strconv.IntSize-1)
		if err != nil {
			return 0, errors.New("use a whole number")
		}
		return int(n), nil
	}, nil}, name, usage)
}

// Choice adds a flag that takes one of the options, which the shell completes. start is the
// default.
func Choice[T ~string](f *pflag.FlagSet, p *T, name string, start T, usage string, options ...T) {
	*p = start
	var names []string
	for _, o := range options {
		names = append(names, string(o))
	}
	f.Var(value[T]{p, "string", func(s string) (T, error) {
		if !slices.Contains(names, s) {
			return T(""), errors.New("use " + OneOf(names...))
		}
		return T(s), nil
	}, names}, name, usage+": "+OneOf(names...))
}

// Options returns what a flag of Choice takes, nil for any other flag.
func Options(f *pflag.Flag) []string {
	if v, is := f.Value.(interface{ names() []string }); is {
		return v.names()
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
