package desk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// logs serves the three logs: for each one, the times of its entries, newest first, in seconds.
func logs(t *testing.T, times map[string][]int) adminapi.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		path := r.URL.Path + q.Get("checkType")
		all := times[map[string]string{
			"/operator/v1/changes": listingActs, "/operator/v1/audit": accountActs, "/operator/v1/eventsreview": reviewActs,
			"/operator/v1/eventsapplication-link": linkCheckActs,
		}[path]]
		limit, _ := strconv.Atoi(q.Get("limit"))
		before, _ := strconv.Atoi(q.Get("before"))
		if before == 0 {
			before = len(all) + 1
		}
		var changes api.ListingActList
		var audit api.AuditList
		var events api.EventActList
		next := int64(0)
		for id := before - 1; id > 0 && id >= before-limit; id-- {
			at, n := time.Unix(int64(all[len(all)-id]), 0).UTC(), strconv.Itoa(id)
			changes.Acts = append(changes.Acts, api.IdentifiedAct{ID: int64(id), Listing: n, ListingAct: api.ListingAct{At: at}})
			audit.Entries = append(audit.Entries, api.AuditEntry{ID: int64(id), At: at, Subject: n})
			events.Events = append(events.Events,
				api.PlacedEvent{Position: int64(id),
					RecordedEvent: api.RecordedEvent{RecordedAt: at, VerificationEvent: api.VerificationEvent{Slug: n}}})
			if id > 1 && id == before-limit {
				next = int64(id)
			}
		}
		changes.Next, audit.Next, events.Next = next, next, next
		switch r.URL.Path {
		case "/operator/v1/changes":
			_ = json.NewEncoder(w).Encode(changes)
		case "/operator/v1/audit":
			_ = json.NewEncoder(w).Encode(audit)
		default:
			_ = json.NewEncoder(w).Encode(events)
		}
	}))
	t.Cleanup(server.Close)
	return adminapi.Client{URL: server.URL, HTTP: server.Client()}
}

// Whatever the page size, a walk has every entry of every log once, and its times never rise if
// those of each log do not.
func TestWalkHasEveryActOnceInOrder(t *testing.T) {
	kinds := []string{listingActs, reviewActs, linkCheckActs, accountActs}
	rapid.Check(t, func(r *rapid.T) {
		times := map[string][]int{}
		want := map[string]int{}
		for _, kind := range kinds {
			at := 50
			for range rapid.IntRange(0, 9).Draw(r, kind) {
				at -= rapid.IntRange(0, 3).Draw(r, "step") // often equal, as in an import
				times[kind] = append(times[kind], at)
				want[fmt.Sprintf("%s %d", kind, len(times[kind]))]++
			}
		}
		log := actLog{Client: logs(t, times), Kinds: kinds}
		limit := rapid.IntRange(1, 7).Draw(r, "limit")
		got, cursor := map[string]int{}, actCursor{}
		last := time.Unix(100, 0)
		for cursor != nil {
			parsed, err := parseActCursor(cursor.String())
			require.NoError(r, err)
			page, next, err := log.Page(t.Context(), parsed, limit)
			require.NoError(r, err)
			require.LessOrEqual(r, len(page), limit)
			for _, a := range page {
				got[a.Kind+" "+a.Subject]++
				require.False(r, a.At.After(last))
				last = a.At
			}
			require.True(r, next == nil || len(page) == limit, "only the last page can be shorter")
			cursor = next
		}
		require.Equal(r, want, got)
	})
}

func TestInvalidCursorIsRejected(t *testing.T) {
	for _, text := range []string{"listing", "[]", `{"listing":"x"}`, "1"} {
		_, err := parseActCursor(text)
		require.Error(t, err, text)
	}
}
