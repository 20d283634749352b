package api_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestBoolFactsMatchTheType compares the table with the *bool fields of Facts, in order.
func TestBoolFactsMatchTheType(t *testing.T) {
	var facts api.Facts
	v := reflect.ValueOf(&facts).Elem()
	var fields []reflect.Value
	var names []string
	for f, value := range v.Fields() {
		if f.Type == reflect.TypeFor[*bool]() {
			fields, names = append(fields, value), append(names, f.Tag.Get("json"))
		}
	}
	require.Len(t, api.BoolFacts, len(names), "add a row to api.BoolFacts for each three-valued fact: %q", names)
	for i, b := range api.BoolFacts {
		require.Equal(t, names[i], b.Name)
		require.Same(t, fields[i].Addr().Interface(), b.Value(&facts), "%s returns another field", b.Name)
		require.NotEmpty(t, b.Label, b.Name)
	}
}

// TestEachFactCanBeKnown fills one field of Facts at a time.
func TestEachFactCanBeKnown(t *testing.T) {
	require.False(t, api.UnknownFacts().Known())
	for f := range reflect.TypeFor[api.Facts]().Fields() {
		facts := api.UnknownFacts()
		fill(t, reflect.ValueOf(&facts).Elem().FieldByIndex(f.Index))
		require.True(t, facts.Known(), "Facts.Known ignores %s", f.Name)
	}
	facts := api.UnknownFacts()
	facts.Remote = new(false)
	require.True(t, facts.Known(), "false is known")
	facts = api.UnknownFacts()
	facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.EligibilityUnknown}}
	require.False(t, facts.Known(), "a country without known eligibility")
	facts.CountryEligibility[0].Status = api.Ineligible
	require.True(t, facts.Known())
}

// TestCompleteFactsHaveNoNullArrays fills every field of Facts and removes its arrays, nested ones
// too.
func TestCompleteFactsHaveNoNullArrays(t *testing.T) {
	var facts api.Facts
	fill(t, reflect.ValueOf(&facts).Elem())
	for f, field := range reflect.ValueOf(&facts).Elem().Fields() {
		if field.Kind() != reflect.Slice {
			continue
		}
		require.NotZero(t, field.Len())
		if element := field.Index(0); element.Kind() == reflect.Struct {
			for _, nested := range element.Fields() {
				if nested.Kind() == reflect.Slice {
					nested.SetZero()
				}
			}
			facts.Complete()
			for inner, nested := range element.Fields() {
				require.False(t, nested.Kind() == reflect.Slice && nested.IsNil(), "Facts.Complete leaves %s.%s null",
					f.Name, inner.Name)
			}
		}
		field.SetZero()
		facts.Complete()
		require.False(t, field.IsNil(), "Facts.Complete leaves %s null", f.Name)
	}
}

// fill sets v and everything in it to a value other than zero.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		require.Fail(t, "no rule for this kind of field", v.Kind().String())
	}
}
