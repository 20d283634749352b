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

// The golden values come from an independent implementation of the layout documented at digest. They must never change: duplicates are
// found by them.
func TestContentHashesNeverChange(t *testing.T) {
	first := event.Record{ // as stored: facts keep the fields that the API had at the time
		ID: "0198f000-0000-7000-8000-000000000001", Slug: "odin-works", CheckedAt: time.Date(2025, 11, 20, 9, 0, 0, 123456000, time.UTC).UnixMicro(),
		CheckType: api.Review, Outcome: api.OutcomeVerified, SourceURLs: `["https://odin.example/a?b=1\u0026c=2"]`,
		Facts: new(`{"countryEligibility":[],"remote":true,"degreeRequired":null,"experienceRequired":null,"flexibleSchedule":null,` +
			`"pay":null,"languages":["fr"],"applicationStatus":"open","applicationUrl":null,"requirements":[],"riskIndicators":[]}`),
		Note: "Première visite – ok", Actor: "ada", RecordedAt: 1763629300000000,
		ContentHash: "20872955b9b8ed3fb1a3577d5fbacb2c8b6a0d6ab3c3e74abad4e5413002648e",
	}
	evidence := api.Evidence{Quotes: []api.Quote{}, Gone: []string{"https://odin.example/faq"}, Unopened: []string{}}
	require.NoError(t, first.Attach(evidence))
	first.Seal("")
	require.True(t, first.Intact())
	private, err := first.Private()
	require.NoError(t, err)
	require.Equal(t, &evidence, private)
	decoded, err := first.Event()
	require.NoError(t, err)
	again, err := event.New(decoded)
	require.NoError(t, err)
	require.Equal(t, first.SourceURLs, again.SourceURLs)

	second, err := event.New(api.VerificationEvent{
		Slug: "odin-works", CheckedAt: time.Date(2025, 11, 21, 9, 0, 0, 0, time.UTC), CheckType: api.LinkCheck,
		Outcome: api.OutcomeReachable, SourceURLs: []string{},
	})
	require.NoError(t, err)
	require.Equal(t, "9ef9ad203b3fb8626b102a1f108d9c5e03cda9c3f92ebdfd66cac5f069371a1e", second.ContentHash)
	second.ID, second.Actor, second.RecordedAt = "0198f000-0000-7000-8000-000000000002", "link-check", 1763715600000001
	require.NoError(t, second.Attach(api.Evidence{}))
	second.Seal(first.Hash)
	require.Equal(t, first.Hash, second.PrevHash)
	require.True(t, second.Intact())
	second.Facts = new("")
	require.False(t, second.Intact(), "empty facts must not pass for nil")
}

func TestEqualEvidenceHasDifferentHashes(t *testing.T) {
	hashes := map[string]bool{}
	for range 2 {
		r := event.Record{ID: "1", Slug: "a", SourceURLs: "[]"}
		require.NoError(t, r.Attach(api.Evidence{Gone: []string{"https://a.example"}}))
		r.Seal("")
		hashes[r.Hash] = true
	}
	require.Len(t, hashes, 2, "a hash without a salt would confirm a guess")
	r := event.Record{}
	require.NoError(t, r.Attach(api.Evidence{Quotes: []api.Quote{}}))
	private, err := r.Private()
	require.NoError(t, err)
	require.Nil(t, private)
}

// proposed returns an event before it joins a chain.
func proposed(t *testing.T) event.Record {
	t.Helper()
	facts := api.UnknownFacts()
	facts.Remote, facts.Languages = new(true), []string{"fr"}
	r, err := event.New(api.VerificationEvent{
		Slug: "odin-works", CheckedAt: time.Date(2026, 11, 20, 9, 0, 0, 120000000, time.UTC), CheckType: api.Review, Outcome: api.OutcomeVerified,
		SourceURLs: []string{"https://odin.example/a?b=1&c=2"}, Facts: &facts, Note: "Première visite <ok>\u2028",
	})
	require.NoError(t, err)
	r.ID, r.Actor, r.RecordedAt = "0198f000-0000-7000-8000-000000000001", "ada \"the\" <curator>", 1795165200000001
	require.NoError(t, r.Attach(api.Evidence{Gone: []string{"https://odin.example/faq"}}))
	return r
}

// The golden values come from an independent implementation. They must never change: published proofs depend on them.
func TestLeafIsTheEventOfTheAPI(t *testing.T) {
	r := proposed(t)
	r.Evidence = `{"actor":"ada \"the\" \u003ccurator\u003e","salt":"000102030405060708090a0b0c0d0e0f"}`
	r.Seal("previous")
	require.True(t, r.Intact())
	require.Equal(t, `{"event":{"checkType":"review","checkedAt":"2026-11-20T09:00:00.12Z","facts":{"applicationStatus":"unknown","applicationUrl":null,`+
		`"countryEligibility":[],"degreeRequired":null,"experienceRequired":null,"flexibleSchedule":null,"languages":["fr"],"pay":null,"remote":true,`+
		`"requirements":[],"riskIndicators":[]},"id":"0198f000-0000-7000-8000-000000000001","note":"Première visite <ok>`+"\u2028"+`","outcome":"verified",`+
		`"slug":"odin-works","sourceUrls":["https://odin.example/a?b=1&c=2"]},"private":"fd62d3febe78b87cfd4478c80222886e41b2fb6669300efb42037ab860272836",`+
		`"recordedAt":"2026-11-20T09:00:00.000001Z"}`, string(r.Leaf()))
	require.Equal(t, "5909d80e0df3079bf44f807162f268152ee7d255ff3719a249ff5b4fb761259b", r.Hash)
}

// Actor and evidence are in the salted private part only.
func TestLeafAndHashRevealNoGuessOfTheActor(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		r := proposed(t)
		r.Seal("previous")
		require.NotContains(t, string(r.Leaf()), `"ada"`) // quoted, because a random hexadecimal hash can contain ada
		seen[r.Hash], seen[string(r.Leaf())] = true, true
	}
	require.Len(t, seen, 4, "the same event of the same actor must have another hash")
}

func TestEachPartOfAnEventIsCovered(t *testing.T) {
	for name, change := range map[string]func(r *event.Record){
		"actor":        func(r *event.Record) { r.Actor = "eve" },
		"private part": func(r *event.Record) { r.Evidence = strings.Replace(r.Evidence, "faq", "faz", 1) },
		"no private":   func(r *event.Record) { r.Evidence = "" },
		"note":         func(r *event.Record) { r.Note = "x" },
		"recordedAt":   func(r *event.Record) { r.RecordedAt++ },
		"facts":        func(r *event.Record) { r.Facts = new(strings.Replace(*r.Facts, "true", "false", 1)) },
	} {
		r := proposed(t)
		r.Seal("previous")
		require.True(t, r.Intact())
		change(&r)
		require.False(t, r.Intact(), name)
	}
}

// An event that was recorded before the API gained a member is shown with it.
func TestOpeningNamesMembersThatTheAPIGainedLater(t *testing.T) {
	r := proposed(t)
	r.Facts = new(`{"countryEligibility":[{"country":"CA"}],"remote":true}`)
	opening, err := r.Opening()
	require.NoError(t, err)
	require.Contains(t, opening.Added, "facts.languages")
	require.Contains(t, opening.Added, "facts.countryEligibility.0.includedRegions")
	require.NotContains(t, opening.Added, "facts.remote")
	plain := proposed(t)
	opening, err = plain.Opening()
	require.NoError(t, err)
	require.Empty(t, opening.Added)
}

func TestHashCoversEveryField(t *testing.T) {
	record := event.Record{ID: "1", Slug: "a", CheckedAt: 1, CheckType: api.Review, Outcome: api.OutcomeVerified,
		SourceURLs: "[]", Facts: new("{}"), Note: "n", Actor: "x", RecordedAt: 2}
	seen := map[string]string{}
	for name, change := range map[string]func(r *event.Record) (prev string){
		"nothing":       func(*event.Record) string { return "" },
		"previous hash": func(*event.Record) string { return "p" },
		"id":            func(r *event.Record) string { r.ID = "2"; return "" },
		"slug":          func(r *event.Record) string { r.Slug = "b"; return "" },
		"checkedAt":     func(r *event.Record) string { r.CheckedAt = 9; return "" },
		"checkType":     func(r *event.Record) string { r.CheckType = api.LinkCheck; return "" },
		"outcome":       func(r *event.Record) string { r.Outcome = api.OutcomeClosed; return "" },
		"sourceUrls":    func(r *event.Record) string { r.SourceURLs = `[""]`; return "" },
		"facts":         func(r *event.Record) string { r.Facts = new(`{"a":1}`); return "" },
		"no facts":      func(r *event.Record) string { r.Facts = nil; return "" },
		"note":          func(r *event.Record) string { r.Note = ""; return "" },
		"recordedAt":    func(r *event.Record) string { r.RecordedAt = 3; return "" },
		"evidence":      func(r *event.Record) string { r.Evidence = "{}"; return "" },
		"salt":          func(r *event.Record) string { r.Evidence = `{"salt":"1"}`; return "" },
		"moved text":    func(r *event.Record) string { r.Facts, r.Note = nil, "{}n"; return "" },
	} {
		r := record
		r.Seal(change(&r))
		require.Emptyf(t, seen[r.Hash], "%s has the same hash as %s", name, seen[r.Hash])
		seen[r.Hash] = name
	}
}

func TestEventReturnsRecordedEvent(t *testing.T) {
	facts := api.UnknownFacts()
	for _, e := range []api.VerificationEvent{
		{Slug: "a", CheckedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), CheckType: api.Review, Outcome: api.OutcomeVerified,
			SourceURLs: []string{"https://a.example/<x>"}, Facts: &facts, Note: "ü"},
		{Slug: "a", CheckedAt: time.Unix(0, 0).UTC(), CheckType: api.LinkCheck, Outcome: api.OutcomeBlocked, SourceURLs: []string{}},
	} {
		r, err := event.New(e)
		require.NoError(t, err)
		got, err := r.Event()
		require.NoError(t, err)
		require.Equal(t, e, got)
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
	f.Add([]byte("{\"slug\":\"b\",\"checkedAt\":\"2026-11-19T00:00:00.000000001+14:00\",\"checkType\":\"application-link\",\"outcome\":\"closed\",\"note\":\"\u2028<\"}\r\n\n{}"))
	f.Add([]byte(`{"slug":"a","checkedAt":"0000-01-01T00:00:00+23:59","checkType":"review","outcome":"closed"}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := eventfile.Read(strings.NewReader(string(file)), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), api.MaxReported)
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
