package highwater

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

// owner is a store with changes in memory.
type owner struct {
	*Guard

	t       *testing.T
	db      *database.DB
	log     *bytes.Buffer
	changes []Mark // the store
	down    error
	handler http.Handler // of all requests
	next    http.HandlerFunc
}

func newOwner(t *testing.T, changes ...Mark) *owner {
	t.Helper()
	cfg := database.Config{URL: storetest.SQLite(t), MaxConnections: 2}
	o := &owner{t: t, log: new(bytes.Buffer), changes: changes}
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: o.log})
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, fstest.MapFS{"sqlite/00001_marks.sql": {Data: []byte(`-- +goose Up
CREATE TABLE set_backs (kind text, number bigint, id text, note text, found_at bigint, generation bigint, accepted_at bigint, accepted_by text,
PRIMARY KEY (kind, number, id));
CREATE TABLE feed_copies (feed text PRIMARY KEY, sequence bigint, mark text, started_over boolean);`)}}))
	o.db, err = database.Open(cfg, tel)
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.db.Close() })
	o.Guard = New(Owner{
		Store: "test", Key: newKey(t, "secret"),
		Newest: func(context.Context) (m Mark, err error) {
			if len(o.changes) > 0 {
				m = o.changes[len(o.changes)-1]
			}
			return m, o.down
		},
		Has: func(_ context.Context, l Loss) (bool, error) {
			for _, m := range o.changes {
				if l.Kind == Change && m.Sequence == l.Number && (l.ID == "" || m.ID == l.ID) || l.Kind == Checkpoint && m.Checkpoint == l.Note {
					return true, o.down
				}
			}
			return false, o.down
		},
		Number: func(note string) (int64, error) {
			if note == "forged" {
				return 0, errors.New("no signature")
			}
			return int64(len(note)), nil
		},
		Keeps: []Row{{Store: "other", DB: o.db}},
	}, o.db, time.Now, tel.Log, prometheus.NewRegistry())
	o.handler = o.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.next(w, r) }), problem.Writer{Log: o.Guard.log})
	return o
}

func (o *owner) mark(m Mark) string { return o.owner.Key.Encode(m) }

func (o *owner) accept() []Loss {
	accepted, err := Accept(o.db.WithContext(o.t.Context()), time.Now(), "ann")
	require.NoError(o.t, err)
	require.NoError(o.t, o.Refresh(o.t.Context()))
	return accepted
}

// A loop reads the losses before a request finds one, and is done after it.
func TestLossFoundDuringARefreshStops(t *testing.T) {
	o := newOwner(t, at(5, "a"))
	type paused struct{}
	read, resume, done := make(chan struct{}), make(chan struct{}), make(chan error)
	require.NoError(t, o.db.Callback().Query().After("gorm:query").Register("pause", func(tx *gorm.DB) {
		if tx.Statement.Context.Value(paused{}) != nil {
			close(read)
			<-resume
		}
	}))
	go func() { done <- o.Refresh(context.WithValue(t.Context(), paused{}, true)) }()
	<-read
	_, err := o.Verify(t.Context(), o.mark(at(7, "b")))
	require.ErrorIs(t, err, ErrSetBack)
	close(resume)
	require.NoError(t, <-done)
	require.ErrorIs(t, o.Err(), ErrSetBack)

	require.Len(t, o.accept(), 1)
	require.NoError(t, o.Err())
	lost, err := o.Verify(t.Context(), o.mark(at(7, "b")))
	require.NoError(t, err)
	require.True(t, lost)
	require.Equal(t, 1, strings.Count(o.log.String(), "database set back"), o.log)
}

func TestReplayedChangeEndsTheStop(t *testing.T) {
	o := newOwner(t, at(5, "a"))
	_, err := o.Verify(t.Context(), o.mark(at(6, "b")), o.mark(Mark{Change: at(5, "a").Change, Checkpoint: "abc"}))
	require.ErrorIs(t, err, ErrSetBack)
	require.Contains(t, o.log.String(), "change 6 b")
	require.NoError(t, o.Refresh(t.Context()))
	require.ErrorIs(t, o.Err(), ErrSetBack)
	o.changes = append(o.changes, at(6, "b"), Mark{Change: at(7, "c").Change, Checkpoint: "abc"})
	require.NoError(t, o.Refresh(t.Context()))
	require.NoError(t, o.Err())
	require.Empty(t, o.accept())
}

// Neither a forged mark nor a loss that an older release recorded without authentication has an effect.
func TestForgedMarksAreReportedAndIgnored(t *testing.T) {
	o := newOwner(t, at(5, "a"))
	forged := o.mark(at(9, "x")) + "A"
	for range 2 {
		lost, err := o.Verify(t.Context(), forged)
		require.NoError(t, err)
		require.False(t, lost)
	}
	_, err := o.Verify(t.Context(), o.mark(Mark{Change: at(5, "a").Change, Checkpoint: "forged"}))
	require.NoError(t, err)
	require.InDelta(t, 3, testutil.ToFloat64(o.rejected), 0)
	require.Equal(t, 2, strings.Count(o.log.String(), "high-water mark rejected"), "each once")
	require.NoError(t, AddLoss(o.db.WithContext(t.Context()), Loss{Kind: Checkpoint, Number: 1<<63 - 1, ID: "x"}))
	require.NoError(t, o.Refresh(t.Context()))
	require.NoError(t, o.Err())
	require.Empty(t, o.accept())
}

// The database is replaced while this process runs, and no keeper is reachable.
func TestProcessRemembersTheMarkThatItMade(t *testing.T) {
	o := newOwner(t, at(5, "a"), at(6, "b"))
	_, err := o.Newest(t.Context())
	require.NoError(t, err)
	o.changes = o.changes[:1]
	_, err = o.Verify(t.Context())
	require.ErrorIs(t, err, ErrSetBack)
	o.accept()
	lost, err := o.Verify(t.Context(), o.mark(at(6, "b")))
	require.NoError(t, err)
	require.True(t, lost, "the keeper of the mark must copy all again, also if it is the first to ask")
	require.NoError(t, o.Err())
}

func TestExchangeReplacesOnlyWhatWasVerified(t *testing.T) {
	o := newOwner(t, at(5, "a"))
	keeper, ctx := Row{Store: "test", DB: o.db}, t.Context()
	kept := func() string {
		marks, err := keeper.Marks(ctx)
		require.NoError(t, err)
		return strings.Join(marks, " ")
	}
	require.NoError(t, o.Exchange(ctx, keeper))
	require.Equal(t, o.mark(at(5, "a")), kept())
	o.changes = append(o.changes, at(6, "b"))
	require.NoError(t, o.Report(ctx, keeper))
	require.Equal(t, o.mark(at(6, "b")), kept())
	replaced, err := keeper.Replace(ctx, []string{o.mark(at(5, "a"))}, o.mark(at(7, "late")), false)
	require.NoError(t, err)
	require.False(t, replaced, "another replica was faster")

	// Restored, and further ahead than before: a report must not replace what proves it.
	restored := newOwner(t, at(5, "a"), at(6, "c"), at(7, "d"))
	require.ErrorIs(t, restored.Report(ctx, keeper), ErrSetBack)
	require.Equal(t, o.mark(at(6, "b")), kept())
	restored.accept()
	require.NoError(t, restored.Exchange(ctx, keeper))
	require.Equal(t, o.mark(at(7, "d")), kept())
	started, err := StartedOver(o.db.WithContext(ctx), "test")
	require.NoError(t, err)
	require.True(t, started, "the copy of the feed has data from before")
	require.NoError(t, EndCopyOver(o.db.WithContext(ctx), "test"))
	require.NoError(t, restored.Exchange(ctx, keeper))
}

// serve returns the response of the guarded owner to a request with marks.
func (o *owner) serve(path string, next http.HandlerFunc, marks ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody).WithContext(o.t.Context())
	if marks != nil {
		r.Header.Set(api.SeenMarksHeader, strings.Join(marks, ","))
	}
	w := httptest.NewRecorder()
	o.next = next
	o.handler.ServeHTTP(w, r)
	return w
}

func TestResponsesExchangeMarks(t *testing.T) {
	o := newOwner(t, at(5, "a"))
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }
	for _, path := range []string{"/internal/v1/feed", api.MarkPath} {
		require.Equal(t, o.mark(at(5, "a")), o.serve(path, ok, "").Header().Get(api.MarkHeader), path)
	}
	require.Equal(t, "ok", o.serve("/x", ok).Body.String())
	require.Empty(t, o.serve("/x", ok).Header().Get(api.MarkHeader), "the caller keeps no marks")
	failed := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	require.Empty(t, o.serve("/x", failed, "").Header().Get(api.MarkHeader))
	o.down = problem.Unavailable(errors.New("down"))
	require.Empty(t, o.serve("/x", ok, "").Header().Get(api.MarkHeader), "during an outage nothing is known")
	require.Equal(t, http.StatusServiceUnavailable, o.serve(api.MarkPath, ok, "").Code)
	o.down = nil

	lost := o.mark(at(6, "b"))
	require.Equal(t, http.StatusServiceUnavailable, o.serve("/x", ok, lost).Code)
	require.Contains(t, o.serve("/operator/v1/x", ok).Body.String(), "OpportunityStoreSetBack")
	require.Equal(t, "ok", o.serve("/readyz", ok).Body.String())
	require.JSONEq(t, `{"marks":null}`, o.serve(api.MarksPath+"other", nil).Body.String())
	require.Equal(t, http.StatusNotFound, o.serve(api.MarksPath+"unknown", nil).Code)
	o.accept()
	w := o.serve("/x", func(w http.ResponseWriter, r *http.Request) { require.True(t, Lost(w)); ok(w, r) }, lost)
	require.Equal(t, o.mark(at(5, "a")), w.Header().Get(api.MarkHeader))
	require.NotEmpty(t, w.Header().Get(api.LostHeader))
}

// A lagging replica takes over while a request is handled: what it read there must not be sent.
func TestResponseOfAReplacedDatabaseIsNotSent(t *testing.T) {
	o := newOwner(t, at(5, "a"), at(6, "b"))
	w := o.serve("/x", func(w http.ResponseWriter, _ *http.Request) {
		o.changes = o.changes[:1]
		w.Header().Set("Etag", `"of the replica"`)
		_, _ = w.Write([]byte("of the replica"))
	}, o.mark(at(6, "b")))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "of the replica")
	require.Empty(t, w.Header().Get("Etag"))
	require.Empty(t, w.Header().Get(api.MarkHeader))
}

// An operator accepts the loss while a feed holds a request from before. Its response must not give the follower a mark of the database after,
// without telling it to start over.
func TestResponseFromBeforeAnAcceptedLossIsNotSent(t *testing.T) {
	o := newOwner(t, at(5, "a"), at(6, "b"))
	seen := o.mark(at(6, "b"))
	w := o.serve("/operator/v1/x", func(w http.ResponseWriter, _ *http.Request) {
		o.changes = o.changes[:1]
		_, err := o.Verify(t.Context(), seen)
		require.ErrorIs(t, err, ErrSetBack)
		o.accept()
		_, _ = w.Write([]byte("nothing new"))
	}, seen)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "accept the loss", "an operator has done so")
	require.Empty(t, w.Header().Get(api.MarkHeader))
	w = o.serve("/x", func(w http.ResponseWriter, _ *http.Request) { require.True(t, Lost(w)) }, seen)
	require.Equal(t, http.StatusOK, w.Code)
	require.NotEmpty(t, w.Header().Get(api.LostHeader))
}

// keeper is a Keeper in memory.
type keeper struct {
	marks    []string
	replaced bool
}

func (k *keeper) Marks(context.Context) ([]string, error) { return k.marks, nil }
func (k *keeper) Replace(_ context.Context, _ []string, newest string, _ bool) (bool, error) {
	if k.replaced {
		k.marks = []string{newest}
	}
	return k.replaced, nil
}

func TestTransportPresentsAndReplacesMarks(t *testing.T) {
	o := newOwner(t, at(5, "a"))
	server := httptest.NewServer(o.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		problem.Writer{Log: o.Guard.log}))
	defer server.Close()
	k := &keeper{replaced: true}
	get := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		resp, err := Transport{http.DefaultTransport, k}.RoundTrip(r)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		return err
	}
	require.NoError(t, get())
	require.Equal(t, []string{o.mark(at(5, "a"))}, k.marks)
	o.changes = append(o.changes, at(6, "b"))
	k.replaced = false
	require.ErrorIs(t, get(), errReplaced, "the response is newer than what is kept")
	k.replaced = true
	require.NoError(t, get())
	require.Equal(t, []string{o.mark(at(6, "b"))}, k.marks)
}

// A restored history that signs before a gateway has presented its marks could sign a number again.
func TestNothingIsSignedBeforeAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls := &Guard{reported: make(chan struct{})}, 0
		sign := g.AfterReport(func(context.Context) error { calls++; return nil })
		go func() { _ = sign(t.Context()) }()
		synctest.Wait()
		require.Zero(t, calls)
		g.once.Do(func() { close(g.reported) })
		synctest.Wait()
		require.Equal(t, 1, calls)
	})
}

func TestNothingWaitsTwiceForAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := &Guard{reported: make(chan struct{})}, time.Now()
		sign := g.AfterReport(func(context.Context) error { return nil })
		require.NoError(t, sign(t.Context()))
		require.NoError(t, sign(t.Context()))
		require.Equal(t, reportWait, time.Since(start))
	})
}
