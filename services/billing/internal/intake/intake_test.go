package intake_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// fake is a Store and a Source that fails as the test says.
type fake struct {
	state                             subscription.State
	processed                         bool
	change                            intake.Change
	ticketErr, processedErr, applyErr error
	readErr, readAgainErr, chargeErr  error
	tickets, reads                    int
	charged                           []string
	applied                           []intake.Fetched
	changed                           []string
	log                               strings.Builder
}

func (f *fake) Ticket(context.Context) (int64, error) {
	f.tickets++
	return int64(f.tickets), f.ticketErr
}

func (f *fake) EventProcessed(context.Context, string) (bool, error) {
	return f.processed, f.processedErr
}

func (f *fake) Apply(_ context.Context, fetched intake.Fetched) (intake.Change, error) {
	f.applied = append(f.applied, fetched)
	return f.change, f.applyErr
}

func (f *fake) Subscription(context.Context, string) (subscription.State, error) {
	if f.reads++; f.reads > 1 {
		return f.state, f.readAgainErr
	}
	return f.state, f.readErr
}

func (f *fake) Charge(_ context.Context, invoice string) error {
	f.charged = append(f.charged, invoice)
	return f.chargeErr
}

func (f *fake) intake() intake.Intake {
	return intake.Intake{
		Store: f, Source: f, Log: slog.New(slog.NewTextHandler(&f.log, nil)), OnChange: func(account string) { f.changed = append(f.changed, account) },
	}
}

func renewing(change ...func(*subscription.State)) subscription.State {
	s := subscription.State{ID: "sub_1", Account: "acc_1", Tier: api.Commercial, PendingInvoice: "in_1"}
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestOutcomeOfEvent(t *testing.T) {
	failure := errors.New("failed")
	event := processor.Event{ID: "evt_1", Type: "t", Subscription: "sub_1"}
	for name, c := range map[string]struct {
		event   processor.Event
		fake    fake
		want    intake.Outcome
		wantErr error
		applied int
		changed []string
	}{
		"no subscription":   {event: processor.Event{ID: "evt_1"}, want: intake.Irrelevant},
		"done":              {event: event, fake: fake{change: intake.Change{Account: "acc_1"}}, want: intake.Done, applied: 1, changed: []string{"acc_1"}},
		"processed before":  {event: event, fake: fake{processed: true}, want: intake.Duplicate},
		"lookup fails":      {event: event, fake: fake{processedErr: failure}, want: intake.Duplicate, wantErr: failure},
		"processed since":   {event: event, fake: fake{change: intake.Change{Account: "acc_1", Duplicate: true}}, want: intake.Duplicate, applied: 1},
		"unknown account":   {event: event, fake: fake{}, want: intake.Irrelevant, applied: 1},
		"no such id":        {event: event, fake: fake{readErr: processor.ErrNotFound}, want: intake.Irrelevant, applied: 1},
		"no ticket":         {event: event, fake: fake{ticketErr: failure}, wantErr: failure},
		"read fails":        {event: event, fake: fake{readErr: failure}, wantErr: failure},
		"store fails":       {event: event, fake: fake{change: intake.Change{Account: "acc_1"}, applyErr: failure}, wantErr: failure, applied: 1},
		"second read fails": {event: event, fake: fake{state: renewing(), readAgainErr: failure}, wantErr: failure},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.fake.intake().HandleEvent(t.Context(), c.event)
			require.Equal(t, c.want, got)
			require.ErrorIs(t, err, c.wantErr)
			require.Len(t, c.fake.applied, c.applied)
			require.Equal(t, c.changed, c.fake.changed)
			require.Equal(t, got == intake.Irrelevant && c.applied > 0, strings.Contains(c.fake.log.String(), "webhook event ignored"), "log")
			for _, f := range c.fake.applied {
				require.Equal(t, intake.Cause{Actor: intake.ActorProcessor, Event: "evt_1"}, f.Cause)
				require.EqualValues(t, c.fake.tickets, f.Ticket)
				require.Equal(t, errors.Is(c.fake.readErr, processor.ErrNotFound), f.State == nil)
			}
		})
	}
}

func TestPendingRenewalIsChargedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		state  subscription.State
		charge bool
	}{
		"pending":         {renewing(), true},
		"none pending":    {renewing(func(s *subscription.State) { s.PendingInvoice = "" }), false},
		"unknown account": {renewing(func(s *subscription.State) { s.Account = "" }), false},
		"other product":   {renewing(func(s *subscription.State) { s.Tier = api.Free }), false},
		"ended":           {renewing(func(s *subscription.State) { s.Ended = true }), false},
		"cancelled":       {renewing(func(s *subscription.State) { s.CancelAtPeriodEnd = true }), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := fake{state: c.state}
			_, err := f.intake().Refresh(t.Context(), "sub_1", intake.Cause{})
			require.NoError(t, err)
			want, charged := 1, []string(nil)
			if c.charge {
				want, charged = 2, []string{"in_1"}
			}
			require.Equal(t, charged, f.charged)
			require.Equal(t, want, f.reads, "reads")
			require.Len(t, f.applied, 1)
			require.EqualValues(t, want, f.applied[0].Ticket, "the ticket is from before the read")
		})
	}
}

func TestRejectedChargeDoesNotFailTheEvent(t *testing.T) {
	rejected := fake{state: renewing(), chargeErr: errors.New("no permission")}
	_, err := rejected.intake().Refresh(t.Context(), "sub_1", intake.Cause{})
	require.NoError(t, err)
	require.Len(t, rejected.applied, 1)
	require.Contains(t, rejected.log.String(), "renewal charge rejected")

	unavailable := fake{state: renewing(), chargeErr: problem.Unavailable(errors.New("timeout"))}
	_, err = unavailable.intake().Refresh(t.Context(), "sub_1", intake.Cause{})
	require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
	require.Empty(t, unavailable.applied)
}

func TestOnChangeMayBeNil(t *testing.T) {
	f := fake{change: intake.Change{Account: "acc_1"}}
	in := f.intake()
	in.OnChange = nil
	_, err := in.Refresh(t.Context(), "sub_1", intake.Cause{})
	require.NoError(t, err)
}
