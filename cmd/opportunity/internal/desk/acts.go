package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
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

	text     string // the detail for people; empty: Detail
	position int64  // in its log
}

// Text returns the detail for people.
func (a act) Text() string {
	if a.Kind == accountActs {
		return string(a.Detail)
	}
	return a.text
}

// actLog merges the logs of some kinds into one list of what people did: changes of listings,
// reviews, link checks, and the audit log of accounts.
type actLog struct {
	Client adminapi.Client
	Kinds  []string

	// filters; an empty one matches all
	Actor, Record, Account string
	Action                 string // prefix; of acts on accounts only
	Since, Until           time.Time
}

// actCursor is the position of a page in each log. The zero value is the first page.
type actCursor map[string]int64

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
// nil if this is the last one.
func (l actLog) Page(ctx context.Context, after actCursor, limit int) (page []act, next actCursor, err error) {
	for a, err := range l.From(ctx, after, limit) {
		if err != nil || len(page) == limit {
			return page, after, err
		}
		page = append(page, a)
		after[a.Kind] = a.position
	}
	return page, nil, nil
}

// From returns all acts after a position, newest first. It reads size acts of a log at once. Acts
// of one log keep its order, so none is missing or listed twice. An error ends the sequence.
func (l actLog) From(ctx context.Context, after actCursor, size int) iter.Seq2[act, error] {
	return func(yield func(act, error) bool) {
		logs, ended := map[string][]act{}, map[string]bool{} // what was read of each log and not yielded
		position := maps.Clone(after)
		for {
			newest := ""
			for _, kind := range l.Kinds {
				if len(logs[kind]) == 0 && !ended[kind] {
					var more bool
					var err error
					if logs[kind], more, err = l.read(ctx, kind, position[kind], size); err != nil {
						yield(act{}, err)
						return
					}
					ended[kind] = !more
				}
				if len(logs[kind]) > 0 && (newest == "" || logs[kind][0].At.After(logs[newest][0].At)) {
					newest = kind
				}
			}
			if newest == "" || !yield(logs[newest][0], nil) {
				return
			}
			position[newest] = logs[newest][0].position
			logs[newest] = logs[newest][1:]
		}
	}
}

// read returns up to limit acts of a log before a position, and whether there are more.
func (l actLog) read(ctx context.Context, kind string, before int64, limit int) (acts []act, more bool, err error) {
	query := []string{"actor", l.Actor, "since", queryTime(l.Since), "until", queryTime(l.Until),
		"limit", strconv.Itoa(limit)}
	if before > 0 {
		query = append(query, "before", strconv.FormatInt(before, 10))
	}
	switch kind {
	case listingActs:
		list, _, err := adminapi.Get[api.ListingActList](ctx, l.Client, "/changes", append(query, "listing", l.Record)...)
		for _, a := range list.Acts {
			detail := map[string]any{"fields": a.Fields}
			if a.Reason != "" {
				detail["reason"] = a.Reason
			}
			acts = append(acts, act{a.At, a.Actor, kind, a.Action, a.Listing, encoded(detail),
				sentence(strings.Join(a.Fields, ", "), a.Reason), a.ID})
		}
		return acts, list.Next != 0, err
	case accountActs:
		list, _, err := l.Client.Audit(ctx, append(query, "account", l.Account, "action", l.Action)...)
		for _, e := range list.Entries {
			acts = append(acts, act{e.At, e.Actor, kind, e.Action, e.Subject, e.Detail, "", e.ID})
		}
		return acts, list.Next != 0, err
	}
	list, _, err := l.Client.Events(ctx, append(query, "listing", l.Record, "checkType", checkTypes[kind])...)
	for _, e := range list.Events {
		detail := map[string]any{"event": e.ID, "checkedAt": e.CheckedAt, "note": e.Note}
		acts = append(acts, act{e.RecordedAt, e.Actor, kind, string(e.Outcome), e.Slug, encoded(detail), e.Note, e.Position})
	}
	return acts, list.Next != 0, err
}

var checkTypes = map[string]string{reviewActs: string(api.FactualReview), linkCheckActs: string(api.LinkCheck)}

// sentence joins the texts that are not empty.
func sentence(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

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
