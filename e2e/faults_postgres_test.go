package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest"
)

// TestFaultsPostgres stops a Postgres primary for a while, and later kills it while an operator
// writes and consumers pay. Its standby, which has every acknowledged write, is then promoted.
func TestFaultsPostgres(t *testing.T) {
	t.Parallel()
	pair := storetest.NewPostgresPair(t)
	s, readers := newStackWithReaders(t, parts{database: pair.Database, billing: true})
	t.Run("paused", func(t *testing.T) { s.pausePostgres(t, readers, pair) })
	t.Run("killed", func(t *testing.T) { s.failOverPostgres(t, readers, pair) })
}

func (s *stack) pausePostgres(t *testing.T, readers []caller, pair *storetest.PostgresPair) {
	row := newResult(t, "Postgres does not reply (SIGSTOP)",
		"lists and records always 200; histories 503; normal without a repair")
	const longer = 2 // seconds: than a history waits
	e := s.during(t, readers, max(duration(), longer*rate()), pair.PausePrimary, pair.ResumePrimary)
	for _, kind := range []string{listCall, recordCall} {
		requireServed(t, e.untilBack(kind), kind)
	}
	histories := e.of(historyCall)
	rejected, slowest := unavailable(t, histories), time.Duration(0)
	require.NotZero(t, rejected)
	for _, c := range histories {
		if c.status == http.StatusServiceUnavailable {
			slowest = max(slowest, c.to.Sub(c.from))
		}
	}
	row.set("list 200 × %d, record 200 × %d, history 503 × %d after at most %.2f s, page 503 × %d; normal %.1f s after it replies",
		len(e.of(listCall)), len(e.of(recordCall)), rejected, slowest.Seconds(), unavailable(t, e.of(pageCall)), e.recovery())
}

func (s *stack) failOverPostgres(t *testing.T, readers []caller, pair *storetest.PostgresPair) {
	row := newResult(t, "Postgres primary is killed, its synchronous standby is promoted",
		"no acknowledged revocation, key, tier, event or payment is lost; lists and records always 200; writes without a repair")
	row.set("%s", s.duringWrites(t, readers, func(*writes) { pair.KillPrimary() }, pair.Promote))
}

// duringWrites makes calls while a fault lasts, beside an operator whose acknowledged writes must
// last. Lists and records get 200 meanwhile. It returns the figures of the row.
func (s *stack) duringWrites(t *testing.T, readers []caller, fail func(*writes), repair func()) string {
	t.Helper()
	w := s.startWrites(t)
	w.succeeds(t)
	var writable time.Time
	e := s.during(t, readers, duration(), func() { fail(w) }, func() {
		repair()
		w.succeeds(t)
		writable = time.Now()
	})
	w.end()
	for _, kind := range []string{listCall, recordCall} {
		requireServed(t, e.untilBack(kind), kind)
	}
	s.has(t, w)
	return fmt.Sprintf("%v; writes %.1f s and all calls %.1f s after the repair; %d histories and %d pages got 503", w,
		writable.Sub(e.end).Seconds(), e.recovery(), unavailable(t, e.untilBack(historyCall)),
		unavailable(t, e.untilBack(pageCall)))
}

// TestFaultsKilled kills each service, and one of the gateways, while an operator writes and
// consumers pay: once, or 20 times in a campaign.
func TestFaultsKilled(t *testing.T) {
	t.Parallel()
	times := 1
	if campaign > 0 {
		times = 20
	}
	row := newResult(t, fmt.Sprintf("each service is killed and starts again, %d times", times),
		"no acknowledged revocation, key, tier, event or payment is lost; normal without a repair")
	s, readers := newStackWithReaders(t, parts{billing: true})
	tr, w := s.send(t, rate(), readers), s.startWrites(t)
	tr.succeeds()
	var slowest time.Duration
	for range times {
		for _, service := range []string{"catalog", "history", "authquota", "billing", "gateway"} {
			w.succeeds(t)
			s.process(t, service).kill()
			started := time.Now()
			s.restart(t, service)
			slowest = max(slowest, tr.succeeds().Sub(started))
		}
	}
	w.succeeds(t)
	w.end()
	calls := tr.end()
	s.has(t, w)
	row.set("%v; %d of %d calls failed; normal at most %.1f s after each start", w,
		len(calls)-counts(calls)[http.StatusOK], len(calls), slowest.Seconds())
}

// writes are the acknowledged writes of an operator.
type writes struct {
	keys    []issued // of the tier commercial
	revoked []issued
	granted int
	events  []string // their notes
	paid    []issued // of accounts that paid at the sandbox

	stop     atomic.Bool
	rounds   atomic.Int64 // in which each write was acknowledged
	failed   atomic.Int64
	messages []string // of failed writes
	running  sync.WaitGroup
}

// startWrites starts to write. In each round it issues a free key, upgrades its account, revokes
// the key of the round before, and appends an event.
func (s *stack) startWrites(t *testing.T) *writes {
	t.Helper()
	w := new(writes)
	w.running.Go(func() {
		for i := 0; !w.stop.Load(); i++ {
			if s.writeOnce(t, w, fmt.Sprintf("write %d", i)) {
				w.rounds.Add(1)
			}
		}
	})
	return w
}

func (s *stack) writeOnce(t *testing.T, w *writes, note string) bool {
	t.Helper()
	acknowledged := true
	accept := func(err error) bool {
		if err != nil {
			w.messages = append(w.messages, err.Error())
			w.failed.Add(1)
			acknowledged = false
		}
		return err == nil
	}
	if len(w.keys) > 0 {
		last := w.keys[len(w.keys)-1]
		w.keys = w.keys[:len(w.keys)-1] // without an acknowledgement, it may be revoked or not
		if _, err := s.operate(t.Context(), "/keys/"+last.ID+"/revoke", ""); accept(err) {
			w.revoked = append(w.revoked, last)
		}
	}
	for range 2 { // one to revoke, and one to keep
		key, err := s.tryIssue(t, api.Free, note)
		if !accept(err) {
			continue
		}
		_, _ = try(t.Context(), s.url, call{path: listPath, key: key.Key}) // the gateway knows it from now on
		if _, err := s.operate(t.Context(), "/accounts/"+key.Account+"/grant", `{"tier":"commercial"}`); accept(err) {
			w.granted++
			w.keys = append(w.keys, key)
		}
	}
	if _, err := s.operate(t.Context(), "/events/append", linkCheck("maple-scribe", note)); accept(err) {
		w.events = append(w.events, note)
	}
	if s.link("gateway", "billing") == nil {
		return acknowledged
	}
	if key, err := s.tryIssue(t, api.Free, note); accept(err) {
		if err := s.buy(t.Context(), key.Account); err != nil {
			w.messages, acknowledged = append(w.messages, err.Error()), false
		} else {
			w.paid = append(w.paid, key)
		}
	}
	return acknowledged
}

// buy pays for a plan at the sandbox. Without an error, the payment was acknowledged.
func (s *stack) buy(ctx context.Context, account string) error {
	order, err := json.Marshal(api.ProcessorRequest{Account: account, Email: "ada@example.org", ReturnURL: s.url +
		"/account/plan"})
	if err != nil {
		return err
	}
	a, err := try(ctx, "http://"+s.link("gateway", "billing").address(), call{
		method: http.MethodPost, path: "/internal/v1/checkouts", body: bytes.NewReader(order),
		key:    tokenBetween(peer.Authquota, peer.Billing),
		header: map[string]string{"Content-Type": "application/json"},
	})
	if err != nil || a.StatusCode != http.StatusOK {
		return fmt.Errorf("checkout: %d %s %w", a.StatusCode, a.body, err)
	}
	var page api.ProcessorPage
	if err := json.Unmarshal(a.body, &page); err != nil {
		return err
	}
	a, err = try(ctx, s.url, call{
		method: http.MethodPost, path: strings.TrimPrefix(page.URL, s.url), body: strings.NewReader("card=works"),
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Origin": s.url},
	})
	if err != nil || a.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("payment: %d %s %w", a.StatusCode, a.body, err)
	}
	return nil
}

func (s *stack) hasPlan(t testing.TB, key issued) {
	t.Helper()
	eventually(t, "the account has what it paid for", func() bool {
		return get(t, s.url, key.Key, historyPath).StatusCode == http.StatusOK
	})
}

func (w *writes) succeeds(t *testing.T) {
	t.Helper()
	before := w.rounds.Load()
	eventually(t, "an operator's writes are acknowledged", func() bool { return w.rounds.Load() > before+1 })
}

func (w *writes) rejected(t *testing.T, n int64) {
	t.Helper()
	before := w.failed.Load()
	eventually(t, "writes are rejected", func() bool { return w.failed.Load() >= before+n })
}

// String returns the numbers of the writes.
func (w *writes) String() string {
	return fmt.Sprintf("0 lost of %d keys, %d revocations, %d tiers, %d events and %d payments, %d writes rejected",
		len(w.keys), len(w.revoked), w.granted, len(w.events), len(w.paid), len(w.messages))
}

func (w *writes) end() {
	w.stop.Store(true)
	w.running.Wait()
}

func (w *writes) requireUnavailable(t *testing.T) {
	t.Helper()
	for _, message := range w.messages {
		require.Contains(t, message, "unavailable")
	}
}

func (s *stack) has(t *testing.T, w *writes) {
	t.Helper()
	for i, gateway := range s.gateways {
		for _, key := range w.keys {
			a := decided(t, gateway, key.Key, listPath+"?limit=100")
			require.Equal(t, http.StatusOK, a.StatusCode, "gateway %d: %s", i, a.body)
			require.Equal(t, 100, decode[api.OpportunityList](t, a).Pagination.Limit, "the account was upgraded")
		}
		for _, key := range w.revoked {
			require.Equal(t, http.StatusUnauthorized, decided(t, gateway, key.Key, listPath).StatusCode)
		}
	}
	for _, key := range w.paid {
		s.hasPlan(t, key)
	}
	notes := map[string]bool{}
	key := s.issue(t, api.Commercial).Key
	for _, e := range walk[api.VerificationEvent](t, s.url, key, historyPath+"?limit=100") {
		notes[e.Note] = true
	}
	for _, note := range w.events {
		require.True(t, notes[note], note)
	}
}
