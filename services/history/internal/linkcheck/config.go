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

// Config holds the settings of the link checker.
type Config struct {
	Contact     string        `env:"OPPORTUNITY_LINK_CHECK_CONTACT" doc:"URL of a page that tells site owners who checks their links and how to reach you; it is part of the user agent. Empty: /docs/link-checker under OPPORTUNITY_PUBLIC_URL."`
	Gap         time.Duration `env:"OPPORTUNITY_LINK_CHECK_GAP" envDefault:"5s" doc:"Minimum time between two requests to the same host."`
	Concurrency int           `env:"OPPORTUNITY_LINK_CHECK_CONCURRENCY" envDefault:"16" doc:"Maximum number of concurrent requests of the link checker, each to a different host."`
	Timeout     time.Duration `env:"OPPORTUNITY_LINK_CHECK_TIMEOUT" envDefault:"20s" doc:"Timeout of one request of the link checker."`
	Ports       []uint16      `env:"OPPORTUNITY_LINK_CHECK_PORTS" envDefault:"80,443" doc:"Ports that the link checker may connect to, comma-separated."`

	TextDays int `env:"OPPORTUNITY_LINK_CHECK_TEXT_DAYS" envDefault:"400" doc:"Days for which the text of a page is stored after the link checker last read it. Curators compare it with the page of today."`

	RefusedNetworks []string `env:"OPPORTUNITY_LINK_CHECK_REFUSED_NETWORKS" doc:"Address ranges that the link checker never connects to, comma-separated, in addition to all non-public ranges: your own public addresses, the prefix of your NAT64."`
	AllowedNetworks []string `env:"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS" doc:"Dangerous, for tests only: non-public address ranges that the link checker may connect to, comma-separated. Anyone who can change a listing, or controls its host, can then reach them."`

	Resolver *net.Resolver `env:"-"` // nil: the system resolver
}

// minGap is the smallest allowed gap, to protect other people's servers.
const minGap = time.Second

// Validate returns an error that names every invalid setting.
func (c Config) Validate() error {
	var errs []error
	if c.Contact != "" && !api.ValidURL(c.Contact) {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_CONTACT must be an http or https URL"))
	}
	if c.Concurrency < 1 {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_CONCURRENCY must be at least 1"))
	}
	if c.TextDays < 1 {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_TEXT_DAYS must be at least 1"))
	}
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("OPPORTUNITY_LINK_CHECK_TIMEOUT must be positive"))
	}
	if c.Gap < minGap && len(c.AllowedNetworks) == 0 {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_LINK_CHECK_GAP must be at least %s", minGap))
	}
	for name, ranges := range map[string][]string{
		"OPPORTUNITY_LINK_CHECK_REFUSED_NETWORKS": c.RefusedNetworks,
		"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": c.AllowedNetworks,
	} {
		if _, err := config.Prefixes(ranges); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// CheckContact returns ErrNoContact if the host of the contact page is not public.
func (c Config) CheckContact() error {
	u, err := url.Parse(c.Contact)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	private := err == nil && (addr.IsLoopback() || addr.IsPrivate() || addr.IsUnspecified() ||
		addr.IsLinkLocalUnicast())
	if len(c.AllowedNetworks) == 0 && (private || err != nil && reserved(hostname(u))) {
		return fmt.Errorf("%w: site owners cannot open %s; set OPPORTUNITY_LINK_CHECK_CONTACT or OPPORTUNITY_PUBLIC_URL",
			ErrNoContact, c.Contact)
	}
	return nil
}

// ErrNoContact is the error of a checker whose contact page site owners could not open.
var ErrNoContact = errors.New("no contact page")
