// Package config loads a service's settings from environment variables into a struct. It reports
// all invalid settings at once, so an operator can correct them in one go.
package config

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
)

// Load returns a T with the settings named by its `env` tags. lookup is usually os.LookupEnv. If T
// has a method Validate() error, Load calls it. All errors are joined; none contains the value of a
// setting.
func Load[T any](lookup func(string) (string, bool)) (T, error) {
	var cfg T
	environment := map[string]string{}
	for _, s := range Describe(cfg) {
		if v, ok := lookup(s.Name); ok {
			environment[s.Name] = v
		}
	}
	err := env.ParseWithOptions(&cfg, env.Options{Environment: environment, FuncMap: parsers})
	if err != nil {
		var all env.AggregateError
		if errors.As(err, &all) {
			err = namesOnly(all, Describe(cfg))
		}
	}
	if v, ok := any(cfg).(interface{ Validate() error }); ok {
		err = errors.Join(err, v.Validate())
	}
	return cfg, err
}

// parsers parse types that the env library does not support, or parses differently.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[slog.Level](): func(s string) (any, error) {
		var l slog.Level
		err := l.UnmarshalText([]byte(s))
		return l, err
	},
	reflect.TypeFor[time.Duration](): func(s string) (any, error) { return api.ParseDuration(s) },
}

// namesOnly replaces errors that quote the value of a setting by errors with its name only. The
// value may be a mistyped secret.
func namesOnly(all env.AggregateError, settings []Setting) error {
	var out []error
	for _, e := range all.Errors {
		var parse env.ParseError
		if errors.As(e, &parse) {
			name := parse.Name
			for _, s := range settings {
				if s.field == parse.Name {
					name = s.Name
				}
			}
			e = fmt.Errorf("%s: %s", name, expected(parse.Type))
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

func expected(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return api.DurationHelp
	case t == reflect.TypeFor[slog.Level]():
		return "use DEBUG, INFO, WARN or ERROR"
	case t.Kind() == reflect.Bool:
		return "use true or false"
	case t.Kind() == reflect.Int:
		return "use a whole number"
	}
	return "not a valid " + t.String()
}

// Setting describes one environment variable.
type Setting struct {
	Name     string
	Default  string
	Required bool
	Doc      string

	field string
}

// Describe returns the settings of a config struct in field order, including nested structs. A
// setting of several fields is there once. docs/configuration.md is generated from it.
func Describe(cfg any) []Setting {
	var out []Setting
	for _, s := range describe(reflect.TypeOf(cfg)) {
		if !slices.ContainsFunc(out, func(other Setting) bool { return other.Name == s.Name }) {
			out = append(out, s)
		}
	}
	return out
}

func describe(t reflect.Type) []Setting {
	var out []Setting
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name != "":
			out = append(out, Setting{
				Name: name, Default: f.Tag.Get("envDefault"), Doc: f.Tag.Get("doc"), field: f.Name,
				Required: strings.Contains(options, "required") || strings.Contains(options, "notEmpty"),
			})
		case f.Type.Kind() == reflect.Struct:
			out = append(out, describe(f.Type)...)
		}
	}
	return out
}

// Address returns an error unless value is the URL of a service, to which paths are appended: http
// or https, without a trailing slash, a query or a fragment. It accepts an empty value; the
// "required" tag reports that.
func Address(name, value string) error {
	if value == "" || api.ValidURL(value) && !strings.HasSuffix(value, "/") && !strings.ContainsAny(value, "?#") {
		return nil
	}
	return fmt.Errorf("%s must be an http or https URL without a trailing slash, a query or a fragment, with a port "+
		"from 1 to 65535 or none", name)
}

// Prefixes parses address ranges such as 10.0.0.0/8. The error names the first invalid range.
func Prefixes(ranges []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(ranges))
	for i, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, err
		}
		out[i] = p.Masked()
	}
	return out, nil
}

// names has the names of the settings of all services. "make generate" writes it.
//
//go:embed names.txt
var names string

// others are the variables of the opportunity command, of the desk and of the SDKs.
var others = []string{
	"OPPORTUNITY_ACTOR", "OPPORTUNITY_ADMIN_URL", "OPPORTUNITY_DATA_DIR", "OPPORTUNITY_DESK_URL", "OPPORTUNITY_KEY",
	"OPPORTUNITY_LINK_CHECKS",
	"OPPORTUNITY_OPERATOR_TOKEN", "OPPORTUNITY_URL",
}

const (
	prefix     = "OPPORTUNITY_"
	testPrefix = "OPPORTUNITY_TEST_"
	mostTypos  = 8 // between an unknown name and the one that is suggested
)

// Unknown returns a warning for each variable in environ that begins with OPPORTUNITY_ and that no
// part of the product reads, with the nearest name that one reads. environ is usually os.Environ.
// No warning has a value.
func Unknown(environ []string) (warnings []string) {
	known := append(strings.Fields(names), others...)
	lower := strings.Fields(strings.ToLower(strings.Join(known, " ")))
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		upper := strings.ToUpper(name)
		if !strings.HasPrefix(upper, prefix) || slices.Contains(known, name) || strings.HasPrefix(name, testPrefix) {
			continue
		}
		warning := fmt.Sprintf("unknown setting %s is ignored", name)
		if near := params.Nearest(name, lower, mostTypos); near != "" {
			warning += fmt.Sprintf(": did you mean %s?", strings.ToUpper(near))
		}
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	return warnings
}
