package gateway

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/gateway/internal/docsite"
)

// Intervals of fetching the settings of authquota: until the first success, and after it.
// sharedRefresh bounds the delay of a changed setting.
const (
	sharedRetry   = time.Second
	sharedRefresh = 3 * time.Second
	sharedTimeout = 5 * time.Second
)

// mixedTiers is the time after a change of the tier table in which other replicas of authquota may
// still have the earlier one.
const mixedTiers = time.Minute

// shared follows the settings of authquota. It keeps the served documents at the limits in effect:
// the tier table of authquota, and this gateway's service capacity. It compares the settings that
// both services must have alike.
type shared struct {
	cfg      Config
	pages    *docsite.Site
	fetch    func(context.Context) (api.SharedSettings, error)
	outdated func() // called when cached principals may have other limits than those shown
	now      func() time.Time

	shown   []api.TierLimits // nil before the first success
	changed time.Time        // of shown, after the first success
	state   atomic.Pointer[comparison]
}

// comparison is the state after a fetch.
type comparison struct {
	known  bool   // a fetch has succeeded, now or earlier
	fault  string // names the settings that the gateway and authquota have different; empty: none
	blocks bool   // the gateway rejects keys that authquota issues, and always did
	agreed bool   // it accepted them, now or earlier
}

// refresh fetches the settings. While authquota is unavailable the documents keep the last figures.
func (s *shared) refresh(ctx context.Context) error {
	next := comparison{}
	if before := s.state.Load(); before != nil {
		next = *before
	}
	defer func() { s.state.Store(&next) }()
	theirs, err := s.fetch(ctx)
	if err != nil {
		return err
	}
	fault, keysLost := s.cfg.compare(theirs)
	next.agreed = next.agreed || !keysLost
	next.fault, next.blocks = fault, !next.agreed
	differ := !reflect.DeepEqual(theirs.Tiers, s.shown)
	if differ && s.shown != nil {
		s.changed = s.now()
	}
	if !s.changed.IsZero() && s.now().Sub(s.changed) < mixedTiers {
		s.outdated()
	}
	if differ {
		if err := s.pages.Show(docsite.Figures{Tiers: theirs.Tiers, Capacity: s.cfg.ServiceCapacity}); err != nil {
			return err
		}
		s.shown = theirs.Tiers
	}
	if next.known = true; next.fault != "" {
		return errors.New(next.fault)
	}
	return nil
}

func (s *shared) documented(context.Context) error {
	if c := s.state.Load(); c == nil || !c.known {
		return errors.New("tier table not fetched from authquota yet")
	}
	return nil
}

func (s *shared) equal(context.Context) error {
	if c := s.state.Load(); c != nil && c.fault != "" {
		return server.Fault(c.fault)
	}
	return nil
}

// watch makes the process unready while it would reject keys that authquota issues and never did
// otherwise, so that a rollout with wrong peppers stops at its first pod. Later, and for other
// settings, it only reports the difference.
func (s *shared) watch(r *service.Runtime) {
	r.Ready.Report(func() string {
		if c := s.state.Load(); c != nil && !c.blocks {
			return c.fault
		}
		return ""
	})
	r.Ready.Add("settings of authquota", func(context.Context) error {
		switch c := s.state.Load(); {
		case c == nil:
			return errors.New("not compared yet")
		case c.blocks:
			return server.Fault(c.fault)
		}
		return nil
	})
	r.Every(service.Loop{Name: "settings of authquota", Interval: sharedRefresh, Retry: sharedRetry,
		Timeout: sharedTimeout, Do: s.refresh})
}

// compare returns the differences to the settings of authquota in words, and whether the gateway
// rejects keys that authquota issues. The peppers may differ as they do while one is rotated.
func (c Config) compare(theirs api.SharedSettings) (fault string, keysLost bool) {
	peppers, _ := apikey.Peppers(c.Peppers) // checked by Validate
	ours := apikey.Fingerprints(peppers)
	has := func(fingerprint string) bool { return slices.Contains(ours, fingerprint) }
	var faults []string
	differ := func(setting, effect string) {
		faults = append(faults, fmt.Sprintf("%s of gateway and %s differ, so %s: set the same value for both", setting,
			peer.Authquota, effect))
	}
	switch i := slices.IndexFunc(theirs.Peppers, func(f string) bool { return !has(f) }); {
	case i == 0: // that of new keys
		keysLost = true
		differ("OPPORTUNITY_KEY_PEPPERS", "the gateway rejects every key that authquota issues")
	case i > 0:
		differ("OPPORTUNITY_KEY_PEPPERS", "the gateway rejects keys that authquota issued under an older pepper")
	}
	if c.OlderKeys != theirs.OlderKeys {
		differ("OPPORTUNITY_OLDER_KEYS", "keys of an earlier system may be rejected")
	}
	if c.TermsVersion != theirs.TermsVersion {
		differ("OPPORTUNITY_TERMS_VERSION", "users accept other terms than those shown")
	}
	return strings.Join(faults, ", "), keysLost
}
