package setback_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
)

var texts = []string{
	"", "x", "0123456789abcdef.7.ABC", "0123456789abcdef.0.", "0123456789abcdef.07.a",
	"0123456789abcdef.9999999999999999999.a", "0123456789ABCDEF.7.a",
	"0123456789abcdef.7.a\n", "0123456789abcdef.7.a b", "0123456789abcdef.-7.a", strings.Repeat("9", 40_000),
	"0123456789abcdef.7." + strings.Repeat("a", 49), "\x00.1.a", "a.b", "..",
}

func TestMarkForm(t *testing.T) {
	for i, text := range texts {
		m, ok := setback.Parse(text)
		require.Equal(t, i == 2 || i == 3, ok, "%.60q", text)
		if ok {
			require.Equal(t, text, m.String())
		}
	}
	require.Empty(t, setback.Mark{}.String())
}

func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := setback.Parse(text)
		if ok && (m.String() != text || len(text) > 100 || m.Sequence < 0) || !ok && m != (setback.Mark{}) {
			t.Fatalf("%q is %+v, %v", text, m, ok)
		}
	})
}

// A gateway presents what it and Redis remember, and gives Redis its memory back. A mark of another
// form in Redis is replaced.
func TestMemory(t *testing.T) {
	client := redistest.Start(t).Client()
	var presented []string
	newest, failed := "", error(nil)
	gateway := func() *setback.Memory {
		return &setback.Memory{Store: "catalog", Redis: client,
			Verify: func(_ context.Context, seen []string) (string, error) {
				presented = seen
				return newest, failed
			}}
	}
	const first, second, third = "0123456789abcdef.7.a", "0123456789abcdef.8.b", "00000000000000aa.6.c"
	stored := func() string { return client.HGet(t.Context(), counter.Marks, "catalog").Val() }
	g := gateway()
	exchange := func(g *setback.Memory, want ...string) {
		t.Helper()
		presented = nil
		require.ErrorIs(t, g.Exchange(t.Context(), stored(), true), failed)
		require.ElementsMatch(t, want, presented)
	}
	exchange(g)
	newest = first
	exchange(g)
	require.Equal(t, first, stored())
	newest = second
	exchange(g, first)
	require.Equal(t, second, stored())
	exchange(gateway(), second)

	failed = errors.New("set back")
	exchange(g, second)
	require.NoError(t, client.HSet(t.Context(), counter.Marks, "catalog", first).Err()) // as after a failover of Redis
	exchange(g, second, first)
	require.Equal(t, first, stored(), "not verified")
	for _, forged := range []string{"", "x", strings.Repeat("9", 40_000)} {
		require.NoError(t, client.HSet(t.Context(), counter.Marks, "catalog", forged).Err())
		exchange(g, second)
		require.Equal(t, second, stored(), "%.20q", forged)
	}
	newest, failed = third, nil // the loss was accepted
	exchange(g, second)
	exchange(g, third)
	require.Equal(t, third, stored())
}

// The script publishes only over the verified mark, raises epochs, and replaces those of another
// form.
func TestReplace(t *testing.T) {
	client := redistest.Start(t).Client()
	replace := func(verified, newest, mode string, epochs ...any) string {
		stored, err := setback.Replace(t.Context(), client, counter.Epochs, counter.EpochsMark, verified, newest, mode,
			epochs...)
		require.NoError(t, err)
		return stored
	}
	epoch := func(want string) {
		t.Helper()
		require.Equal(t, want, client.HGet(t.Context(), counter.Epochs, "acc").Val())
	}
	require.Empty(t, replace("", "m1", "", "acc", 7, "!acc", "c"))
	epoch("7")
	require.Equal(t, "c", client.HGet(t.Context(), counter.Epochs, "!acc").Val())
	require.Equal(t, "m1", replace("other", "m2", "", "acc", 8, "!acc", ""))
	epoch("7")
	require.Equal(t, "m1", replace("m1", "m2", "", "acc", 6, "!acc", ""))
	epoch("7")
	require.Equal(t, "m2", replace("m2", "", "", "acc", 8, "!acc", ""))
	epoch("8")
	require.False(t, client.HExists(t.Context(), counter.Epochs, "!acc").Val())
	require.Equal(t, "m2", replace("m2", "", "set", "acc", 5, "!acc", ""))
	epoch("5")
	for _, forged := range []string{"", "x", "nan", "inf", "1e300", "0x9", "-1", strings.Repeat("9", 40_000),
		"99999999999999999"} {
		require.NoError(t, client.HSet(t.Context(), counter.Epochs, "acc", forged).Err())
		replace("m2", "", "", "acc", 9, "!acc", "")
		epoch("9")
	}
	require.NoError(t, client.HSet(t.Context(), counter.Epochs, counter.EpochsMark, strings.Repeat("9", 40_000)).Err())
	require.Empty(t, replace("", "m3", ""))
}

// guard returns a guard of a new database, and a function that executes a statement.
func guard(t *testing.T) (g *setback.Guard, exec func(statement string)) {
	t.Helper()
	tel := storetest.Must(telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: t.Output()}))(t)
	db, err := database.Open(database.Config{URL: "sqlite://" + filepath.Join(t.TempDir(), "test.db"), MaxConnections: 1},
		tel)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	exec = func(statement string) {
		t.Helper()
		require.NoError(t, db.Exec(statement).Error)
	}
	exec("CREATE TABLE generations (id TEXT PRIMARY KEY, began_at INTEGER, begun_by TEXT)")
	exec("CREATE TABLE claims (mark TEXT PRIMARY KEY)")
	exec("CREATE TABLE changes (sequence INTEGER PRIMARY KEY, id TEXT)")
	exec("INSERT INTO generations VALUES ('0123456789abcdef', 1, '')")
	g = setback.New("test", setback.Store{DB: db, Changes: "changes"}, slog.New(slog.DiscardHandler),
		prometheus.NewRegistry())
	return g, exec
}

// A gateway that presents the mark that the process knows costs no statement. Another mark is
// looked up, and a set back database shows none.
func TestKnownMarkIsAnsweredFromMemory(t *testing.T) {
	g, exec := guard(t)
	statements := 0
	require.NoError(t, g.DB.Callback().Row().After("*").Register("count", func(*gorm.DB) { statements++ }))
	h := g.Handler(http.NotFoundHandler(), problem.Writer{Log: slog.New(slog.DiscardHandler)})
	ask := func(wantStatements int, seen ...string) (status int, mark string) {
		t.Helper()
		path := api.MarkPath + "?"
		for _, text := range seen {
			path += "&seen=" + text
		}
		w := httptest.NewRecorder()
		statements = 0
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Equal(t, wantStatements, statements, seen)
		return w.Code, w.Body.String()
	}
	const empty, first, second = "0123456789abcdef.0.", "0123456789abcdef.7.a", "0123456789abcdef.8.b"
	status, mark := ask(1)
	require.Equal(t, http.StatusOK, status, "the first request of a process")
	require.Equal(t, `"`+empty+`"`+"\n", mark)
	exec("INSERT INTO changes VALUES (7, 'a')")
	_, mark = ask(0, empty)
	require.Equal(t, `"`+empty+`"`+"\n", mark, "until the next poll")
	require.NoError(t, g.Poll(t.Context()))
	for _, seen := range [][]string{{}, {first}, {first, first}} {
		_, mark = ask(0, seen...)
		require.Equal(t, `"`+first+`"`+"\n", mark)
	}
	status, _ = ask(2, second) // the state, and whether it has the mark
	require.Equal(t, http.StatusServiceUnavailable, status)
	status, _ = ask(0, first)
	require.Equal(t, http.StatusServiceUnavailable, status, "set back")
}

func TestMovedReportsChangesAndALoss(t *testing.T) {
	g, exec := guard(t)
	require.NoError(t, g.Poll(t.Context()))
	moved := g.Moved()
	isClosed := func() bool {
		select {
		case <-moved:
			return true
		default:
			return false
		}
	}
	require.NoError(t, g.Poll(t.Context()))
	require.False(t, isClosed(), "nothing changed")
	exec("INSERT INTO changes VALUES (7, 'a')")
	require.NoError(t, g.Poll(t.Context()))
	require.True(t, isClosed(), "a change")
	moved = g.Moved()
	exec("DELETE FROM changes")
	require.ErrorIs(t, g.Poll(t.Context()), setback.ErrSetBack)
	require.True(t, isClosed(), "a loss")
}
