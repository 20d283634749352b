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
)

// logs serves the logs: for each kind, the times of its entries, newest first, in seconds.
func logs(t *testing.T, times map[string][]int) adminapi.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		all := times[map[string]string{
			"/operator/v1/changes": listingActs, "/operator/v1/audit": accountActs, "/operator/v1/eventsreview": reviewActs,
			"/operator/v1/eventsapplication-link": linkCheckActs,
		}[r.URL.Path+q.Get("checkType")]]
		limit, _ := strconv.Atoi(q.Get("limit"))
		id := len(all)
		if before, err := strconv.Atoi(q.Get("before")); err == nil {
			id = before - 1
		}
		next, entries := 0, []any{}
		for ; id > 0 && len(entries) < limit; id-- {
			at, n := time.Unix(int64(all[len(all)-id]), 0).UTC(), strconv.Itoa(id)
			entries = append(entries, map[string]any{"id": id, "position": id, "at": at, "recordedAt": at, "listing": n,
				"subject": n, "slug": n})
			next = id
		}
		if id == 0 {
			next = 0
		}
		// The position is the id, except that of an event, whose id is a text.
		field := map[string]string{"/operator/v1/changes": "acts", "/operator/v1/audit": "entries"}[r.URL.Path]
		if field == "" {
			field = "events"
			for _, e := range entries {
				e.(map[string]any)["id"] = ""
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{field: entries, "next": next})
	}))
	t.Cleanup(server.Close)
	return adminapi.Client{URL: server.URL, HTTP: server.Client()}
}

// Whatever the page size, a walk has every entry of every log once, and its times never rise if
// those of each log do not.
func TestWalkHasEveryActOnceInOrder(t *testing.T) {
	kinds := []string{listingActs, reviewActs, linkCheckActs, accountActs}
	rapid.Check(t, func(r *rapid.T) {
		times, want := map[string][]int{}, map[string]int{}
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
		got, cursor, last := map[string]int{}, actCursor{}, time.Unix(100, 0)
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
	for _, text := range []string{"listing", "[]", `{"listing":"x"}`, "1"} {
		_, err := parseActCursor(text)
		require.Error(t, err, text)
	}
}
