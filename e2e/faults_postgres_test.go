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
	s := newStackOn(t, parts{database: pair.Database, billing: true}, "OPPORTUNITY_TIERS=commercial=10000/1000000/100",
		"OPPORTUNITY_SERVICE_CAPACITY=10000000")
	s.fill(t, sample(t))
	readers := s.readers(t)
	s.know(t, readers)
	t.Run("paused", func(t *testing.T) { s.pausePostgres(t, readers, pair) })
	t.Run("killed", func(t *testing.T) { s.failOverPostgres(t, readers, pair) })
}

func (s *stack) pausePostgres(t *testing.T, readers []caller, pair *storetest.PostgresPair) {
	row := newResult(t, "Postgres does not reply (SIGSTOP)",
		"lists and records always 200; histories 503; normal without a repair")
	tr := s.send(t, rate(), readers)
	tr.succeeds()
	begin := time.Now()
	pair.PausePrimary()
	tr.next(max(duration(), 2*rate())) // longer than a history waits
	end := time.Now()
	pair.ResumePrimary()
	back := tr.succeeds()
	calls := tr.end()

	for _, kind := range []string{listCall, recordCall} {
		requireServed(t, between(calls, kind, begin, back), kind)
	}
	histories := between(calls, historyCall, begin, end)
	rejected, slowest := unavailable(t, histories), time.Duration(0)
	require.NotZero(t, rejected)
	for _, c := range histories {
		if c.status == http.StatusServiceUnavailable {
			slowest = max(slowest, c.to.Sub(c.from))
		}
	}
	row.set("list 200 × %d, record 200 × %d, history 503 × %d after at most %.2f s, page 503 × %d; normal %.1f s after it replies",
		len(between(calls, listCall, begin, end)), len(between(calls, recordCall, begin, end)), rejected, slowest.Seconds(),
		unavailable(t, between(calls, pageCall, begin, end)), back.Sub(end).Seconds())
}

func (s *stack) failOverPostgres(t *testing.T, readers []caller, pair *storetest.PostgresPair) {
	row := newResult(t, "Postgres primary is killed, its synchronous standby is promoted",
		"no acknowledged revocation, key, tier, event or payment is lost; lists and records always 200; writes without a repair")
	tr, w := s.send(t, rate(), readers), s.startWrites(t)
	tr.succeeds()
	w.succeeds(t)

	begin := time.Now()
	pair.KillPrimary()
	tr.next(duration())
	end := time.Now()
	pair.Promote()
	w.succeeds(t)
	writable := time.Now()
	back := tr.succeeds()
	calls := tr.end()
	w.end()

	for _, kind := range []string{listCall, recordCall} {
		requireServed(t, between(calls, kind, begin, back), kind)
	}
	s.has(t, w)
	row.set("0 lost of %d keys, %d revocations, %d tiers, %d events and %d payments; writes %.1f s and all calls %.1f s after the promotion; %d histories and %d pages got 503",
		len(w.keys), len(w.revoked), w.granted, len(w.events), len(w.paid), writable.Sub(end).Seconds(),
		back.Sub(end).Seconds(),
		unavailable(t, between(calls, historyCall, begin, back)), unavailable(t, between(calls, pageCall, begin, back)))
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
		_, _ = try(t.Context(), s.url, call{path: "/api/v1/opportunities", key: key.Key}) // the gateway knows it from now on
		if _, err := s.operate(t.Context(), "/accounts/"+key.Account+"/grant", `{"tier":"commercial"}`); accept(err) {
			w.granted++
			w.keys = append(w.keys, key)
		}
	}
	event := fmt.Sprintf(`{"slug":"maple-scribe","checkedAt":%q,"checkType":"application-link","outcome":"reachable","note":%q,"sourceUrls":[],"facts":null}`,
		time.Now().UTC().Format(time.RFC3339Nano), note)
	if _, err := s.operate(t.Context(), "/events/append", event); accept(err) {
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
	order, err := json.Marshal(api.CheckoutRequest{Account: account, Email: "ada@example.org", ReturnURL: s.url +
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

// succeeds waits until each write of a whole round is acknowledged.
func (w *writes) succeeds(t *testing.T) {
	t.Helper()
	before := w.rounds.Load()
	eventually(t, "an operator's writes are acknowledged", func() bool { return w.rounds.Load() > before+1 })
}

func (w *writes) end() {
	w.stop.Store(true)
	w.running.Wait()
}

// has checks that no acknowledged write is lost.
func (s *stack) has(t *testing.T, w *writes) {
	t.Helper()
	for i, gateway := range s.gateways {
		for _, key := range w.keys {
			a := decided(t, gateway, call{path: "/api/v1/opportunities?limit=100", key: key.Key})
			require.Equal(t, http.StatusOK, a.StatusCode, "gateway %d: %s", i, a.body)
			require.Equal(t, 100, decode[api.OpportunityList](t, a).Pagination.Limit, "the account was upgraded")
		}
		for _, key := range w.revoked {
			require.Equal(t, http.StatusUnauthorized,
				decided(t, gateway, call{path: "/api/v1/opportunities", key: key.Key}).StatusCode)
		}
	}
	for i, key := range w.paid {
		eventually(t, "the account has the plan", func() bool {
			a := do(t, s.rotate(i), call{path: "/api/v1/opportunities?limit=100", key: key.Key})
			return a.StatusCode == http.StatusOK && decode[api.OpportunityList](t, a).Pagination.Limit == 100
		})
	}
	notes := map[string]bool{}
	key := s.issue(t, api.Commercial).Key
	for _, p := range walk(t, s.url, key, "/api/v1/opportunities/maple-scribe/history?limit=100", eventPage) {
		for _, e := range p.Data {
			notes[e.Note] = true
		}
	}
	for _, note := range w.events {
		require.True(t, notes[note], note)
	}
}
