package event_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/services/history/internal/event"
)

// The golden values come from an independent implementation of what contentHash documents. They
// must never change: duplicates are found by them.
func TestContentHashesNeverChange(t *testing.T) {
	first := event.Record{ // as stored: facts keep the fields that the API had at the time
		ID: "0198f000-0000-7000-8000-000000000001", Slug: "odin-works",
		CheckedAt: time.Date(2025, 11, 20, 9, 0, 0, 123456000, time.UTC).UnixMicro(),
		CheckType: api.FactualReview, Outcome: api.OutcomeVerified,
		SourceURLs: `["https://odin.example/a?b=1\u0026c=2"]`,
		Facts: new(`{"countryEligibility":[],"remote":true,"degreeRequired":null,"experienceRequired":null,` +
			`"flexibleSchedule":null,` +
			`"pay":null,"languages":["fr"],"applicationStatus":"open","applicationUrl":null,"requirements":[],` +
			`"riskIndicators":[]}`),
		Note: "Première visite – ok", Actor: "ada", RecordedAt: 1763629300000000,
		ContentHash: "85a4361221fb35441cce7855c24b3cfbb5be8b82ddcfb5d2421507d7727bdd0a",
	}
	evidence := api.Evidence{Quotes: []api.Quote{}, Gone: []string{"https://odin.example/faq"}, Unopened: []string{}}
	require.NoError(t, first.Attach(evidence))
	require.NotNil(t, first.Leaf())
	private, err := first.Private()
	require.NoError(t, err)
	require.Equal(t, &evidence, private)

	second, err := event.New(api.VerificationEvent{
		Slug: "odin-works", CheckedAt: time.Date(2025, 11, 21, 9, 0, 0, 0, time.UTC), CheckType: api.LinkCheck,
		Outcome: api.OutcomeReachable, SourceURLs: []string{},
	})
	require.NoError(t, err)
	require.Equal(t, "b341a7ce666921596e580c085f5b4b5e1318c8b97266a0f0a7213091b9043df0", second.ContentHash)
	second.ID, second.Actor, second.RecordedAt = "0198f000-0000-7000-8000-000000000002", "link-check", 1763715600000001
	require.NoError(t, second.Attach(api.Evidence{}))
	require.NotNil(t, second.Leaf())
	second.Facts = new("")
	require.Nil(t, second.Leaf(), "empty facts must not pass for nil")
}

func TestEqualEvidenceHasDifferentLeaves(t *testing.T) {
	leaves := map[string]bool{}
	for range 2 {
		leaves[string(proposed(t).Leaf())] = true
	}
	require.Len(t, leaves, 2, "a hash without a salt would confirm a guess")
	r := event.Record{}
	require.NoError(t, r.Attach(api.Evidence{Quotes: []api.Quote{}}))
	private, err := r.Private()
	require.NoError(t, err)
	require.Nil(t, private)
}

// proposed returns an event.
func proposed(t *testing.T) *event.Record {
	t.Helper()
	facts := api.UnknownFacts()
	facts.Remote, facts.Languages = new(true), []string{"fr"}
	r, err := event.New(api.VerificationEvent{
		Slug: "odin-works", CheckedAt: time.Date(2026, 11, 20, 9, 0, 0, 120000000, time.UTC),
		CheckType: api.FactualReview, Outcome: api.OutcomeVerified,
		SourceURLs: []string{"https://odin.example/a?b=1&c=2"}, Facts: &facts, Note: "Première visite <ok>\u2028",
	})
	require.NoError(t, err)
	r.ID, r.Actor, r.RecordedAt = "0198f000-0000-7000-8000-000000000001", "ada \"the\" <curator>", 1795165200000001
	require.NoError(t, r.Attach(api.Evidence{Gone: []string{"https://odin.example/faq"}}))
	return &r
}

// The golden values come from an independent implementation. They must never change: published
// proofs depend on them. The record is a stored one, so it has the facts of its time.
func TestLeafIsTheEventOfTheAPI(t *testing.T) {
	r := proposed(t)
	r.Facts = new(`{"remote":true,"applicationUrl":null,"countryEligibility":[],"pay":null,"degreeRequired":null,` +
		`"experienceRequired":null,"flexibleSchedule":null,"applicationStatus":"unknown","languages":["fr"],` +
		`"requirements":[],"riskIndicators":[]}`)
	r.ContentHash = "e7571c0af84468e35e350914403a6e4d82be7fa95359b9040ccfe4c35a3603bf"
	r.Evidence = `{"actor":"ada \"the\" \u003ccurator\u003e","salt":"000102030405060708090a0b0c0d0e0f"}`
	require.Equal(t, `{"event":{"checkType":"review","checkedAt":"2026-11-20T09:00:00.12Z",`+
		`"facts":{"applicationStatus":"unknown","applicationUrl":null,`+
		`"countryEligibility":[],"degreeRequired":null,"experienceRequired":null,"flexibleSchedule":null,`+
		`"languages":["fr"],"pay":null,"remote":true,"requirements":[],"riskIndicators":[]},`+
		`"id":"0198f000-0000-7000-8000-000000000001","note":"Première visite <ok>`+"\u2028"+`","outcome":"verified",`+
		`"slug":"odin-works","sourceUrls":["https://odin.example/a?b=1&c=2"]},`+
		`"private":"fd62d3febe78b87cfd4478c80222886e41b2fb6669300efb42037ab860272836",`+
		`"recordedAt":"2026-11-20T09:00:00.000001Z"}`, string(r.Leaf()))
}

func TestARecordThatContradictsItselfHasNoLeaf(t *testing.T) {
	for name, change := range map[string]func(r *event.Record){
		"actor":          func(r *event.Record) { r.Actor = "eve" },
		"no private":     func(r *event.Record) { r.Evidence = "" },
		"note":           func(r *event.Record) { r.Note = "x" },
		"content hash":   func(r *event.Record) { r.ContentHash = "x" },
		"facts":          func(r *event.Record) { r.Facts = new(strings.Replace(*r.Facts, "true", "false", 1)) },
		"facts are none": func(r *event.Record) { r.Facts = new("{") },
		"sources":        func(r *event.Record) { r.SourceURLs = "[" },
	} {
		r := proposed(t)
		require.NotNil(t, r.Leaf())
		change(r)
		require.Nil(t, r.Leaf(), name)
	}
}

func TestLeafCoversEveryField(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(r *event.Record, e *api.VerificationEvent){
		"nothing":    func(*event.Record, *api.VerificationEvent) {},
		"id":         func(r *event.Record, _ *api.VerificationEvent) { r.ID = "2" },
		"slug":       func(_ *event.Record, e *api.VerificationEvent) { e.Slug = "b" },
		"checkedAt":  func(_ *event.Record, e *api.VerificationEvent) { e.CheckedAt = time.UnixMicro(9) },
		"checkType":  func(_ *event.Record, e *api.VerificationEvent) { e.CheckType = api.LinkCheck },
		"outcome":    func(_ *event.Record, e *api.VerificationEvent) { e.Outcome = api.OutcomeClosed },
		"sourceUrls": func(_ *event.Record, e *api.VerificationEvent) { e.SourceURLs = []string{""} },
		"facts":      func(_ *event.Record, e *api.VerificationEvent) { e.Facts = new(api.UnknownFacts()) },
		"note":       func(_ *event.Record, e *api.VerificationEvent) { e.Note = "m" },
		"recordedAt": func(r *event.Record, _ *api.VerificationEvent) { r.RecordedAt = 3 },
		"evidence":   func(r *event.Record, _ *api.VerificationEvent) { r.Evidence = `{"actor":"x","salt":"1"}` },
	} {
		r := event.Record{ID: "1", RecordedAt: 2, Evidence: `{"actor":"x","salt":"0"}`}
		e := api.VerificationEvent{Slug: "a", CheckedAt: time.UnixMicro(1), CheckType: api.FactualReview,
			Outcome: api.OutcomeVerified, SourceURLs: []string{}, Note: "n"}
		change(&r, &e)
		made, err := event.New(e)
		require.NoError(t, err)
		made.ID, made.RecordedAt, made.Evidence, made.Actor = r.ID, r.RecordedAt, r.Evidence, "x"
		leaf := string(made.Leaf())
		require.NotEmpty(t, leaf)
		require.Emptyf(t, seen[leaf], "%s has the same leaf as %s", name, seen[leaf])
		seen[leaf] = name
	}
}

func TestEventFillsInFactsAddedLater(t *testing.T) {
	r := event.Record{SourceURLs: "[]", Facts: new(`{"remote":true}`)}
	got, err := r.Event()
	require.NoError(t, err)
	want := api.UnknownFacts()
	want.Remote = new(true)
	require.Equal(t, &want, got.Facts)
}

// FuzzRead checks that every accepted line of any file can be recorded and read back unchanged.
func FuzzRead(f *testing.F) {
	f.Add([]byte(apitest.Line(apitest.Verified("a", time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)))))
	f.Add([]byte(`{"slug":"b","checkedAt":"2026-11-19T00:00:00.000000001+14:00","checkType":"application-link",` +
		"\"outcome\":\"closed\",\"note\":\"\u2028<\"}\r\n\n{}"))
	f.Add([]byte(`{"slug":"a","checkedAt":"0000-01-01T00:00:00+23:59","checkType":"review","outcome":"closed"}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := eventfile.Read(strings.NewReader(string(file)), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
			api.MaxReported)
		require.NoError(t, err)
		for _, line := range in.Lines {
			r, err := event.New(line.Event)
			require.NoError(t, err)
			again, err := r.Event()
			require.NoError(t, err)
			require.Equal(t, line.Event, again)
			twice, err := event.New(again)
			require.NoError(t, err)
			require.Equal(t, r, twice, "an event that is served and recorded again must not change")
		}
	})
}
