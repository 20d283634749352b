package setback_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

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
