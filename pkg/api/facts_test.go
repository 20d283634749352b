package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

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

// Complete leaves null only what can be unknown: six facts, and allRegions of a country.
func TestCompleteFactsHaveNoNullArrays(t *testing.T) {
	facts := api.Facts{CountryEligibility: []api.CountryEligibility{{}}}
	facts.Complete()
	text, err := json.Marshal([]api.Facts{facts, api.UnknownFacts()})
	require.NoError(t, err)
	require.Equal(t, 7+6, strings.Count(string(text), ":null"), "%s", text)
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

func TestProfileIsFreshUntil90DaysAfterItsOldestCheck(t *testing.T) {
	for oldest, end := range map[api.CheckDate]string{
		"2026-08-25T09:30:00.5Z": "2026-11-23T09:30:00.5Z", "2026-08-25": "2026-11-23T00:00:00Z", "": "",
	} {
		var p api.CompanyProfile
		if oldest != "" {
			p.Bio = &api.ProfileText{CheckedAt: "2026-11-20"}
			p.EvidenceAssessment = &api.Assessment{CheckedAt: oldest}
		}
		p.Complete()
		if end == "" {
			require.Nil(t, p.FreshUntil)
			require.Equal(t, api.ProfileUnknown, p.FreshnessAt(time.Now()))
			continue
		}
		require.Equal(t, end, p.FreshUntil.Format(time.RFC3339Nano))
		require.Equal(t, api.ProfileFresh, p.FreshnessAt(p.FreshUntil.Add(-time.Microsecond)))
		require.Equal(t, api.ProfileStale, p.FreshnessAt(*p.FreshUntil))
	}
}
