package opportunity

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestConformance runs the cases that all SDKs must pass; sdk/conformance/README.md describes them.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob("../../conformance/*.json")
	check(t, err)
	if len(files) == 0 {
		t.Fatal("no cases found")
	}
	for _, file := range files {
		var cases []conformanceCase
		check(t, json.Unmarshal(expand(t, file), &cases))
		for _, c := range cases {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".json")+"/"+c.Name, c.run)
		}
	}
}

func TestMatchesAnswersAsTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../conformance/matches/cases.json")
	check(t, err)
	var file struct {
		Records []Opportunity
		Cases   []struct {
			Record int
			Filter SearchFilter
			Now    time.Time
			Want   bool
		}
	}
	check(t, json.Unmarshal(text, &file))
	if len(file.Cases) < 500 {
		t.Errorf("got %d cases, want 500", len(file.Cases))
	}
	for _, c := range file.Cases {
		got, err := Matches(file.Records[c.Record], c.Filter, c.Now)
		check(t, err)
		if got != c.Want {
			t.Errorf("got %t for %s, %+v at %v", got, file.Records[c.Record].ID, c.Filter, c.Now)
		}
	}
	if text, err = os.ReadFile("../../conformance/matches/rejected.json"); err != nil {
		t.Fatal(err)
	}
	var rejected []SearchFilter
	check(t, json.Unmarshal(text, &rejected))
	for _, f := range rejected {
		if _, err := Matches(file.Records[0], f, time.Now()); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

type conformanceCase struct {
	Name    string
	Options struct {
		RetryBudget       *float64
		Timeout, Deadline float64
		Cache             int
		UserAgent, Path   string
		Refuse            bool
	}
	Copy struct {
		Records map[string]string
		State   SyncState
	}
	Calls     []conformanceCall
	Exchanges []exchange
}

type conformanceCall struct {
	Do        string
	ID        string
	Filter    SearchFilter
	After     string
	Take      int
	Now       time.Time
	FullEvery float64
	Want      map[string]any
}

type exchange struct {
	Path    string
	Query   map[string]string
	Headers map[string]*string
	Status  int
	Send    map[string]string
	Body    json.RawMessage
	Text    string
	Drop    bool
	Hang    bool
	Public  bool // without the key
	Early   int  // interim responses
	Gzip    bool
}

func (c conformanceCase) run(t *testing.T) {
	const key = "oda_test_conformance"
	var played atomic.Int64 // each exchange may run on a connection, and goroutine, of its own
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := int(played.Add(1)) - 1
		if next >= len(c.Exchanges) {
			t.Errorf("unexpected request %s", r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if got := r.Header.Get("Authorization"); got != "Bearer "+key && !c.Exchanges[next].Public || got != "" &&
			c.Exchanges[next].Public {
			t.Errorf("Authorization is %q", got)
		}
		if want := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String(); r.Host != want {
			t.Errorf("got host %q, want %q", r.Host, want)
		}
		c.Exchanges[next].play(t, w, r)
	}))
	defer server.Close()
	if c.Options.Refuse {
		server.Close()
	}

	var waits []float64
	var retries []any
	options := []Option{WithURL(server.URL + c.Options.Path), WithKey(key), WithUserAgent(c.Options.UserAgent),
		WithRetryHook(func(r Retry) {
			retries = append(retries, map[string]any{"attempt": r.Attempt, "wait": r.Wait.Seconds(),
				"code": r.Err.Code})
		})}
	if c.Options.RetryBudget != nil {
		options = append(options, WithRetryBudget(time.Duration(*c.Options.RetryBudget*float64(time.Second))))
	}
	if c.Options.Timeout > 0 {
		options = append(options, WithTimeout(time.Duration(c.Options.Timeout*float64(time.Second))))
	}
	if c.Options.Cache > 0 {
		options = append(options, WithCache(NewMemoryCache(c.Options.Cache)))
	}
	client, err := New(options...)
	check(t, err)
	ctx := t.Context()
	if c.Options.Deadline > 0 {
		bounded, cancel := context.WithTimeout(ctx, time.Duration(c.Options.Deadline*float64(time.Second)))
		defer cancel()
		ctx = bounded
	} else {
		client.sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d.Seconds()); return nil }
	}
	store := &memoryStore{records: map[string]Opportunity{}, state: c.Copy.State}
	for id, summary := range c.Copy.Records {
		store.records[id] = Opportunity{ID: id, Summary: summary}
	}
	for _, call := range c.Calls {
		waits, retries = []float64{}, []any{}
		client.now = func() time.Time { return call.Now }
		got := call.run(ctx, client, store)
		got["waits"], got["retries"] = waits, retries
		compare(t, call.Want, got)
	}
	// a deadline can end a call before its request
	if got := int(played.Load()); got != len(c.Exchanges) && ctx.Err() == nil {
		t.Errorf("got %d requests, want %d", got, len(c.Exchanges))
	}
}

func (x exchange) play(t *testing.T, w http.ResponseWriter, r *http.Request) {
	query := map[string]string{}
	for name := range r.URL.Query() {
		query[name] = r.URL.Query().Get(name)
	}
	if r.URL.EscapedPath() != x.Path || !maps.Equal(query, x.Query) {
		t.Errorf("got request %s, want %s with %v", r.URL, x.Path, x.Query)
	}
	for name, want := range x.Headers {
		if want != nil {
			*want = strings.ReplaceAll(*want, "{sdk}", "opportunity-go/"+Version)
		}
		if values := r.Header.Values(name); want == nil && len(values) > 0 || want != nil &&
			!slices.Equal(values, []string{*want}) {
			t.Errorf("got header %s %q, want %v", name, values, want)
		}
	}
	if x.Drop {
		panic(http.ErrAbortHandler)
	}
	if x.Hang {
		<-r.Context().Done()
		return
	}
	_, port, _ := net.SplitHostPort(r.Host)
	w.Header().Set("Content-Type", "application/json")
	for name, value := range x.Send {
		w.Header().Set(name, strings.ReplaceAll(value, "{port}", port))
	}
	for range x.Early {
		w.WriteHeader(http.StatusEarlyHints)
	}
	if x.Status != 0 {
		w.WriteHeader(x.Status)
	}
	var out io.Writer = w
	if x.Gzip {
		compressed := gzip.NewWriter(w)
		defer func() { check(t, compressed.Close()) }()
		out = compressed
	}
	_, _ = out.Write(bytes.ReplaceAll(x.Body, []byte("{port}"), []byte(port)))
	_, _ = out.Write([]byte(x.Text))
}

// listFilter returns the part of the filter that the list has, too.
func (c conformanceCall) listFilter() (f Filter) {
	text, _ := json.Marshal(c.Filter)
	_ = json.Unmarshal(text, &f)
	return f
}

// run makes the call and returns everything that a case can compare.
func (c conformanceCall) run(ctx context.Context, client *Client, store *memoryStore) map[string]any {
	got := map[string]any{}
	var err error
	switch c.Do {
	case "opportunities", "search":
		var found []Opportunity
		records := client.Search(ctx, c.Filter)
		if c.Do == "opportunities" {
			records = client.Opportunities(ctx, c.listFilter())
		}
		found, err = take(c.Take, records)
		got["ids"] = each(found, func(o Opportunity) any { return o.ID })
		got["remote"] = each(found, func(o Opportunity) any { return o.Facts.Remote })
	case "history":
		var found []VerificationEvent
		found, err = take(c.Take, client.History(ctx, c.ID, HistoryFilter{}))
		got["ids"] = each(found, func(e VerificationEvent) any { return e.ID })
	case "opportunityPages":
		var found []*Page[Opportunity]
		found, err = take(c.Take, client.OpportunityPages(ctx, c.listFilter()))
		got["pages"] = each(found, func(p *Page[Opportunity]) any {
			return map[string]any{
				"ids": each(p.Data, func(o Opportunity) any { return o.ID }), "page": p.Pagination.Page,
				"total":     p.Pagination.Total,
				"remaining": p.Response.RateLimit.Remaining, "requestId": p.Response.RequestID,
				"notModified": p.Response.NotModified,
				"reset":       p.Response.RateLimit.Reset,
				"minuteLimit": map[string]any{
					"limit": p.Response.MinuteLimit.Limit, "remaining": p.Response.MinuteLimit.Remaining,
					"reset": p.Response.MinuteLimit.Reset,
				},
			}
		})
	case "changes":
		var found []RecordChange
		found, err = take(c.Take, client.Changes(ctx, ChangeFilter{After: c.After}))
		got["ids"] = each(found, func(c RecordChange) any { return c.ID })
		got["changes"] = each(found, func(c RecordChange) any { return c.Change })
	case "changePages":
		var found []*ChangePage
		found, err = take(c.Take, client.ChangePages(ctx, ChangeFilter{After: c.After}))
		got["cursors"] = each(found, func(p *ChangePage) any { return p.Pagination.Cursor })
	case "opportunity":
		var detail *Detail
		if detail, err = client.Opportunity(ctx, c.ID); err == nil {
			got["id"], got["remote"] = detail.Data.ID, []Tri{detail.Data.Facts.Remote}
			got["notModified"], got["requestId"] = detail.Response.NotModified, detail.Response.RequestID
		}
	case "eventProof":
		got["proof"], err = client.EventProof(ctx, c.ID)
	case "sync":
		var result SyncResult
		result, err = client.Sync(ctx, store, SyncOptions{FullEvery: time.Duration(c.FullEvery * float64(time.Second))})
		got["full"], got["put"], got["removed"] = result.Full, result.Put, result.Removed
		summaries := map[string]string{}
		for id, record := range store.records {
			summaries[id] = record.Summary
		}
		got["copy"], got["state"], got["cursor"] = summaries, store.state, store.state.Cursor
	default:
		err = fmt.Errorf("unknown call %q", c.Do)
	}
	if e := new(Error); errors.As(err, &e) {
		got["error"] = map[string]any{
			"status": e.Status, "code": e.Code, "message": e.Message, "requestId": e.RequestID,
			"retryAfter": e.RetryAfter.Seconds(), "documentation": e.Documentation,
			"text": strings.TrimPrefix(e.Error(), "opportunity: "),
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		got["timedOut"] = true
	} else if err != nil {
		got["error"] = err.Error()
	}
	return got
}

// compare fails the test unless got contains every entry of want, as JSON. Waits are compared with
// ranges. An unexpected error fails.
func compare(t *testing.T, want map[string]any, actual map[string]any) {
	t.Helper()
	text, err := json.Marshal(actual)
	check(t, err)
	var got map[string]any
	check(t, json.Unmarshal(text, &got))
	if ranges, ok := want["waits"].([]any); ok {
		waits := got["waits"].([]any)
		same := len(waits) == len(ranges)
		for i := 0; same && i < len(waits); i++ {
			r := ranges[i].([]any)
			same = r[0].(float64) <= waits[i].(float64) && waits[i].(float64) <= r[1].(float64)
		}
		if !same {
			t.Errorf("got waits %v, want %v", waits, ranges)
		}
		delete(want, "waits")
	}
	if got["error"] != nil && want["error"] == nil {
		t.Errorf("got error %v", got["error"])
	}
	for name, value := range want {
		if !contains(got[name], value) {
			t.Errorf("got %s %v, want %v", name, got[name], value)
		}
	}
}

// contains reports whether got equals want, where objects of got may have more properties.
func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && contains(object[name], value)
		}
		return ok
	case []any:
		list, ok := got.([]any)
		ok = ok && len(list) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = contains(list[i], want[i])
		}
		return ok
	}
	return reflect.DeepEqual(got, want)
}

// memoryStore is a Store in memory.
type memoryStore struct {
	records map[string]Opportunity
	state   SyncState
}

func (s *memoryStore) State(context.Context) (SyncState, error) { return s.state, nil }

func (s *memoryStore) IDs(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(s.records)), nil
}

func (s *memoryStore) Apply(_ context.Context, changes Changes) error {
	for _, record := range changes.Put {
		s.records[record.ID] = record
	}
	for _, id := range changes.Remove {
		delete(s.records, id)
	}
	s.state = changes.State
	return nil
}

// take collects up to n items (0: all) and the error that ended the iteration.
func take[T any](n int, items iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for item, err := range items {
		if err != nil {
			return all, err
		}
		all = append(all, item)
		if len(all) == n {
			break
		}
	}
	return all, nil
}

func each[T any](items []T, f func(T) any) []any {
	out := []any{}
	for _, item := range items {
		out = append(out, f(item))
	}
	return out
}

// expand returns a file of cases with fixtures in the place of {"$record": overrides} and the like.
func expand(t *testing.T, file string) []byte {
	t.Helper()
	var fixtures map[string]any
	var cases any
	for name, into := range map[string]any{"../../conformance/fixtures/fixtures.json": &fixtures, file: &cases} {
		text, err := os.ReadFile(name)
		check(t, err)
		check(t, json.Unmarshal(text, into))
	}
	out, err := json.Marshal(replaced(cases, fixtures))
	check(t, err)
	return out
}

func replaced(value any, fixtures map[string]any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, overrides := range value {
			if fixture, ok := strings.CutPrefix(name, "$"); ok {
				return merged(fixtures[fixture], overrides)
			}
		}
		for name, v := range value {
			value[name] = replaced(v, fixtures)
		}
	case []any:
		for i, v := range value {
			value[i] = replaced(v, fixtures)
		}
	}
	return value
}

// merged returns a copy of base with the overrides, which may be nested objects.
func merged(base, overrides any) any {
	from, isObject := base.(map[string]any)
	to, ok := overrides.(map[string]any)
	if !isObject || !ok {
		return overrides
	}
	out := maps.Clone(from)
	for name, v := range to {
		out[name] = merged(from[name], v)
	}
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
