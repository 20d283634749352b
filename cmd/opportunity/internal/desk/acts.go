package desk

import (
	"context"
	"encoding/json"
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
	At      time.Time
	Actor   string
	Kind    string
	Action  string
	Subject string // id of a listing, account, key or request
	Detail  string

	position int64 // in its log
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
func parseActCursor(text string) (c actCursor, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &c)
	}
	return c, err
}

// String returns the cursor as text, which is empty if it is nil.
func (c actCursor) String() string {
	if c == nil {
		return ""
	}
	text, _ := json.Marshal(c) // texts and numbers
	return string(text)
}

// Page returns up to limit acts after a position, newest first, and the position of the next page,
// nil if this is the last one. Acts of one log keep its order, so none is missing or listed twice.
func (l actLog) Page(ctx context.Context, after actCursor, limit int) (page []act, next actCursor, err error) {
	logs, more := map[string][]act{}, false // what was read of each log and is not on the page
	for _, kind := range l.Kinds {
		acts, further, err := l.read(ctx, kind, after[kind], limit)
		if err != nil {
			return nil, nil, err
		}
		logs[kind], more = acts, more || further
	}
	next = actCursor{}
	for maps.Copy(next, after); ; {
		newest := ""
		for _, kind := range l.Kinds {
			if len(logs[kind]) > 0 && (newest == "" || logs[kind][0].At.After(logs[newest][0].At)) {
				newest = kind
			}
		}
		switch {
		case newest == "" && !more:
			return page, nil, nil
		case newest == "" || len(page) == limit:
			return page, next, nil
		}
		page = append(page, logs[newest][0])
		next[newest], logs[newest] = logs[newest][0].position, logs[newest][1:]
	}
}

// read returns up to limit acts of a log before a position, and whether there are more.
func (l actLog) read(ctx context.Context, kind string, before int64, limit int) (acts []act, more bool, err error) {
	position := ""
	if before > 0 {
		position = strconv.FormatInt(before, 10)
	}
	in := func(filters ...string) adminapi.Input {
		return adminapi.Input{Query: adminapi.Query(append(filters, "actor", l.Actor, "since", queryTime(l.Since),
			"until", queryTime(l.Until), "limit", strconv.Itoa(limit), "before", position)...)}
	}
	switch kind {
	case listingActs:
		list, _, err := adminapi.ListChanges.Call(ctx, l.Client, in("listing", l.Record))
		for _, a := range list.Acts {
			detail := sentence(strings.Join(a.Fields, ", "), a.Reason)
			acts = append(acts, act{a.At, a.Actor, kind, a.Action, a.Listing, detail, a.ID})
		}
		return acts, list.Next != 0, err
	case accountActs:
		list, _, err := adminapi.ListAudit.Call(ctx, l.Client, in("account", l.Account, "action", l.Action))
		for _, e := range list.Entries {
			acts = append(acts, act{e.At, e.Actor, kind, e.Action, e.Subject, string(e.Detail), e.ID})
		}
		return acts, list.Next != 0, err
	}
	list, _, err := adminapi.ListEvents.Call(ctx, l.Client, in("listing", l.Record, "checkType", checkTypes[kind]))
	for _, e := range list.Events {
		acts = append(acts, act{e.RecordedAt, e.Actor, kind, string(e.Outcome), e.Slug, e.Note, e.Position})
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
