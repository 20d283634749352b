package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// Kinds of acts. Each has a log of its own.
const (
	listingActs   = "listing"
	reviewActs    = "review"
	linkCheckActs = "link-check"
	accountActs   = "account"
)

// act is an entry of a log.
type act struct {
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Kind    string          `json:"kind"`
	Action  string          `json:"action"`
	Subject string          `json:"subject"` // id of a listing, account, key or request
	Detail  json.RawMessage `json:"detail"`

	position int64 // in its log
}

// Text returns the detail for people.
func (a act) Text() string {
	var d struct {
		Fields []string
		Reason string
		Note   string
	}
	if a.Kind != accountActs && json.Unmarshal(a.Detail, &d) == nil {
		return strings.Join(slices.DeleteFunc([]string{strings.Join(d.Fields, ", "), d.Reason, d.Note},
			func(s string) bool { return s == "" }), "; ")
	}
	return string(a.Detail)
}

// actFilter selects acts. An empty field matches all.
type actFilter struct {
	Actor        string
	Record       string
	Account      string
	Action       string // prefix; of acts on accounts only
	Since, Until time.Time
}

// actLog merges the logs of some kinds into one list of what people did: changes of listings,
// reviews, link checks, and the audit log of accounts.
type actLog struct {
	Client adminapi.Client
	Kinds  []string
	Filter actFilter
}

// actCursor is the position of a page in each log. The zero value is the first page.
type actCursor map[string]int64

// endOfLog marks a log without older entries.
const endOfLog = -1

// parseActCursor parses the result of String. It returns an error for any other text.
func parseActCursor(text string) (actCursor, error) {
	c := actCursor{}
	for part := range strings.FieldsSeq(text) {
		kind, position, _ := strings.Cut(part, ":")
		n, err := strconv.ParseInt(position, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid position %q", part)
		}
		c[kind] = n
	}
	return c, nil
}

// String returns the cursor as text.
func (c actCursor) String() string {
	var parts []string
	for kind, position := range c {
		parts = append(parts, fmt.Sprintf("%s:%d", kind, position))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// Page returns up to limit acts after a position, newest first, and the position of the next page,
// nil if this is the last one. Acts of one log keep its order, so none is missing or listed twice.
func (l actLog) Page(ctx context.Context, after actCursor, limit int) (page []act, next actCursor, err error) {
	heads, more := map[string][]act{}, map[string]bool{}
	next = actCursor{}
	for _, kind := range l.Kinds {
		next[kind] = after[kind]
		if after[kind] == endOfLog {
			continue
		}
		if heads[kind], more[kind], err = l.read(ctx, kind, after[kind], limit); err != nil {
			return nil, nil, err
		}
	}
	for len(page) < limit {
		kind := l.newest(heads)
		if kind == "" {
			break
		}
		page = append(page, heads[kind][0])
		next[kind] = heads[kind][0].position
		heads[kind] = heads[kind][1:]
	}
	last := true
	for _, kind := range l.Kinds {
		if len(heads[kind]) == 0 && !more[kind] {
			next[kind] = endOfLog
		}
		last = last && next[kind] == endOfLog
	}
	if last {
		return page, nil, nil
	}
	return page, next, nil
}

// From returns the acts of a page and of all pages after it. Each page has up to limit acts.
func (l actLog) From(ctx context.Context, page []act, next actCursor, limit int) iter.Seq2[act, error] {
	return func(yield func(act, error) bool) {
		for {
			for _, a := range page {
				if !yield(a, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			var err error
			if page, next, err = l.Page(ctx, next, limit); err != nil {
				yield(act{}, err)
				return
			}
		}
	}
}

// newest returns the kind with the newest first act, empty if there is none.
func (l actLog) newest(heads map[string][]act) (newest string) {
	for _, kind := range l.Kinds {
		if len(heads[kind]) > 0 && (newest == "" || heads[kind][0].At.After(heads[newest][0].At)) {
			newest = kind
		}
	}
	return newest
}

// read returns up to limit acts of a log before a position, and whether there are more.
func (l actLog) read(ctx context.Context, kind string, before int64, limit int) (acts []act, more bool, err error) {
	query := []string{"actor", l.Filter.Actor, "since", queryTime(l.Filter.Since), "until", queryTime(l.Filter.Until),
		"limit", strconv.Itoa(limit)}
	if before > 0 {
		query = append(query, "before", strconv.FormatInt(before, 10))
	}
	switch kind {
	case listingActs:
		list, _, err := adminapi.Get[api.ListingActList](ctx, l.Client, "/changes",
			append(query, "listing", l.Filter.Record)...)
		for _, a := range list.Acts {
			detail := map[string]any{"fields": a.Fields}
			if a.Reason != "" {
				detail["reason"] = a.Reason
			}
			acts = append(acts, act{a.At, a.Actor, kind, a.Action, a.Listing, encoded(detail), a.ID})
		}
		return acts, list.Next != 0, err
	case accountActs:
		list, _, err := l.Client.Audit(ctx, append(query, "account", l.Filter.Account, "action", l.Filter.Action)...)
		for _, e := range list.Entries {
			acts = append(acts, act{e.At, e.Actor, kind, e.Action, e.Subject, e.Detail, e.ID})
		}
		return acts, list.Next != 0, err
	}
	list, _, err := l.Client.Events(ctx, append(query, "listing", l.Filter.Record, "checkType", checkTypes[kind])...)
	for _, e := range list.Events {
		detail := map[string]any{"event": e.ID, "checkedAt": e.CheckedAt, "note": e.Note}
		acts = append(acts, act{e.RecordedAt, e.Actor, kind, string(e.Outcome), e.Slug, encoded(detail), e.Position})
	}
	return acts, list.Next != 0, err
}

var checkTypes = map[string]string{reviewActs: string(api.FactualReview), linkCheckActs: string(api.LinkCheck)}

func queryTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func encoded(v any) json.RawMessage {
	text, _ := api.Encode(v) // texts and times
	return text
}
