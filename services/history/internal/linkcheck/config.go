package linkcheck

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/config"
)

// Config says how links are asked.
type Config struct {
	Contact     string        `env:"OPPORTUNITY_LINK_CHECK_CONTACT" doc:"Page that tells owners of sites who checks their links and how to reach you; every request names it. Empty: /docs/link-checker under OPPORTUNITY_PUBLIC_URL."`
	Gap         time.Duration `env:"OPPORTUNITY_LINK_CHECK_GAP" envDefault:"5s" doc:"Least time between two requests to one host."`
	Concurrency int           `env:"OPPORTUNITY_LINK_CHECK_CONCURRENCY" envDefault:"16" doc:"Most requests of the link checker at one time, each to another host."`
	Timeout     time.Duration `env:"OPPORTUNITY_LINK_CHECK_TIMEOUT" envDefault:"20s" doc:"How long one request of the link checker may take."`
	Ports       []uint16      `env:"OPPORTUNITY_LINK_CHECK_PORTS" envDefault:"80,443" doc:"Ports that the link checker may ask, comma-separated."`

	RefusedNetworks []string `env:"OPPORTUNITY_LINK_CHECK_REFUSED_NETWORKS" doc:"Address ranges that the link checker never asks, comma-separated, beside all that are not public: your own public addresses, the prefix of your NAT64."`
	AllowedNetworks []string `env:"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS" doc:"Dangerous, for tests only: address ranges that the link checker asks although they are not public, comma-separated. Whoever can change a listing or answer for its host can then reach them."`

	Resolver *net.Resolver `env:"-"` // nil: that of the system
}

// leastGap is what we owe the hosts of others.
const leastGap = time.Second

// Validate names every setting that links cannot be checked with.
func (c Config) Validate() error {
	var errs []error
	if c.Contact != "" && !api.ValidURL(c.Contact) {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_CONTACT must be an http or https URL"))
	}
	if c.Concurrency < 1 {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_CONCURRENCY must be at least 1"))
	}
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_TIMEOUT must be positive"))
	}
	if c.Gap < leastGap && len(c.AllowedNetworks) == 0 {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_LINK_CHECK_GAP must be at least %s", leastGap))
	}
	for name, ranges := range map[string][]string{
		"OPPORTUNITY_LINK_CHECK_REFUSED_NETWORKS": c.RefusedNetworks, "OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": c.AllowedNetworks,
	} {
		if _, err := config.Prefixes(ranges); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// reachable reports an error unless strangers can open the contact page, as far as its address tells.
func (c Config) reachable() error {
	u, err := url.Parse(c.Contact)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	private := err == nil && (addr.IsLoopback() || addr.IsPrivate() || addr.IsUnspecified() || addr.IsLinkLocalUnicast())
	if len(c.AllowedNetworks) == 0 && (private || err != nil && reserved(hostname(u))) {
		return fmt.Errorf("%w: site owners cannot open %s; set OPPORTUNITY_LINK_CHECK_CONTACT or OPPORTUNITY_PUBLIC_URL",
			ErrNoContact, c.Contact)
	}
	return nil
}

// ErrNoContact says that links are not checked because the requests would name no page of ours that strangers can open.
var ErrNoContact = errors.New("no contact page")
