// Package config loads a service's settings from environment variables into a struct. It reports
// all invalid settings at once, so an operator can correct them in one go.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Load returns a T with the settings named by its `env` tags, or their `envDefault`. lookup is
// usually os.LookupEnv; an empty value counts as unset. If T has a method Validate() error, Load
// calls it. All errors are joined; none contains the value of a setting, which may be a mistyped
// secret.
func Load[T any](lookup func(string) (string, bool)) (cfg T, err error) {
	var errs []error
	for _, s := range settings(reflect.ValueOf(&cfg).Elem()) {
		text, set := lookup(s.Name)
		if !set || text == "" {
			text = s.Default
		}
		switch {
		case text != "":
			if err := parse(s.field, text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			}
		case s.Required:
			errs = append(errs, fmt.Errorf("%s is missing", s.Name))
		}
	}
	if v, ok := any(cfg).(interface{ Validate() error }); ok {
		errs = append(errs, v.Validate())
	}
	return cfg, errors.Join(errs...)
}

// parse sets a field to the value of a text. Its errors say what to write instead.
func parse(field reflect.Value, text string) (err error) {
	wanted := ""
	switch to := field.Addr().Interface().(type) {
	case *string:
		*to = text
	case *[]string:
		*to = strings.Split(text, ",")
	case *[]uint16:
		wanted = "use whole numbers up to 65535, separated by commas"
		for part := range strings.SplitSeq(text, ",") {
			n, wrong := strconv.ParseUint(part, 10, 16)
			*to, err = append(*to, uint16(n)), errors.Join(err, wrong)
		}
	case *bool:
		wanted = "use true or false"
		*to, err = strconv.ParseBool(text)
	case *int:
		wanted = "use a whole number"
		*to, err = strconv.Atoi(text)
	case *time.Duration:
		wanted = api.DurationHelp
		*to, err = api.ParseDuration(text)
	case *slog.Level:
		wanted = "use DEBUG, INFO, WARN or ERROR"
		err = to.UnmarshalText([]byte(text))
	default:
		panic("config: no rule for " + field.Type().String())
	}
	if err != nil {
		return errors.New(wanted)
	}
	return nil
}

// Setting describes one environment variable.
type Setting struct {
	Name     string
	Default  string
	Required bool
	Doc      string

	field reflect.Value
}

// Describe returns the settings of a config struct in field order, including nested structs. A
// setting of several fields is there once. docs/configuration.md is generated from it.
func Describe(cfg any) []Setting {
	var out []Setting
	for _, s := range settings(reflect.ValueOf(cfg)) {
		if !slices.ContainsFunc(out, func(other Setting) bool { return other.Name == s.Name }) {
			out = append(out, s)
		}
	}
	return out
}

func settings(cfg reflect.Value) (all []Setting) {
	for f, value := range cfg.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name != "":
			all = append(all, Setting{Name: name, Default: f.Tag.Get("envDefault"), Doc: f.Tag.Get("doc"),
				Required: strings.Contains(options, "required"), field: value})
		case f.Type.Kind() == reflect.Struct:
			all = append(all, settings(value)...)
		}
	}
	return all
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
