package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
)

const (
	watchInterval = 10 * time.Second // between checks, once the peer has accepted the token
	watchRetry    = time.Second      // between checks before that
	watchTimeout  = 5 * time.Second
)

// connection is the state of the connection to a peer.
type connection struct {
	accepted bool   // the peer has accepted the token, now or earlier
	rejected bool   // the peer rejected the token in the latest check
	fault    string // of the latest check, about the token or TLS; "" if there is none
}

// WatchPeer checks the connection to the service to at base. While that service rejects the token
// of this one, and never accepted it, this service is not ready. So a rollout with a wrong token
// stops at its first pod, and the old pods go on serving. A peer that is unreachable or uses TLS
// otherwise has not decided about the token: it does not make this service unready, because
// services that start together, or switch TLS on together, would wait for each other for ever. A
// peer that is not ready has decided.
//
// Afterwards this service stays ready: it serves what it has without the peer. A rejected token and
// a fault of TLS are reported in the readiness, and once in the log.
func (r *Runtime) WatchPeer(to, base string, tokens peer.Tokens) {
	var state atomic.Pointer[connection] // nil before the end of the first check
	r.Ready.Report(func() string {
		if c := state.Load(); c != nil && !c.blocks() {
			return c.fault
		}
		return ""
	})
	r.Ready.Add("connection to "+to, func(context.Context) error {
		switch c := state.Load(); {
		case c == nil:
			return errors.New("not checked yet")
		case c.blocks():
			return server.Fault(c.fault)
		}
		return nil
	})
	var latest time.Time
	r.Every(Loop{Name: "connection to " + to, Interval: watchRetry, Timeout: watchTimeout,
		Do: func(ctx context.Context) error {
			before, next, wrong := state.Load(), connection{}, peer.SettingsError{}
			if before != nil && before.accepted && before.fault == "" && time.Since(latest) < watchInterval {
				return nil
			}
			latest = time.Now()
			err := r.CheckPeer(ctx, to, base, tokens)
			switch {
			case errors.As(err, &wrong):
				next.rejected, next.fault = wrong.Token, fmt.Sprintf("%s to %s (%v)", r.name, to, err)
			case err == nil, errors.As(err, new(*peer.NotReadyError)), errors.As(err, new(*peer.FaultError)):
				next.accepted, err = true, nil
			default: // the calls of the service report outages
				err = nil
			}
			next.accepted = next.accepted || before != nil && before.accepted
			state.Store(&next)
			return err
		}})
}

func (c connection) blocks() bool { return c.rejected && !c.accepted }
