package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/linkcheck"
	"opportunity.internal/services/history/internal/store"
)

// contactPage is the path of the gateway's page for site owners.
const contactPage = "/docs/link-checker"

var (
	// ErrLinksBusy is the error of CheckLinks while another run is in progress, in any process.
	ErrLinksBusy = linkcheck.ErrBusy
	// ErrNoContact is the error of CheckLinks if site owners could not open the contact page.
	ErrNoContact = linkcheck.ErrNoContact
)

// LinkReport is the result of a run of the link checker. Its String method returns one line of
// text.
type LinkReport = linkcheck.Report

func (c Config) linksWithContact() linkcheck.Config {
	links := c.Links
	if links.Contact == "" {
		links.Contact = c.PublicURL + contactPage
	}
	return links
}

// CheckContact returns ErrNoContact if CheckLinks would return it.
func CheckContact(cfg Config) error { return cfg.linksWithContact().CheckContact() }

// CheckLinks checks every due application link and appends an event for each. It needs the database
// and the internet, but no peer: it reads the published listings from the copy in the database.
// When ctx ends it starts no more checks and returns after those in progress are recorded; the
// other links stay due.
func CheckLinks(ctx context.Context, cfg Config) (LinkReport, error) {
	cfg.Links = cfg.linksWithContact()
	transport, err := linkcheck.NewTransport(cfg.Links)
	if err != nil {
		return LinkReport{}, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	checker, err := linkcheck.New(cfg.Links, transport, cfg.Now)
	if err != nil {
		return LinkReport{}, err
	}
	var report LinkReport
	err = definition.Do(ctx, cfg, func(r *service.Runtime) error {
		if err := r.NotSetBack(ctx); err != nil {
			return err
		}
		report, err = checker.Once(ctx, store.New(r.DB))
		switch {
		case errors.Is(err, ErrLinksBusy):
			r.Log.InfoContext(ctx, "link check skipped: another run is in progress")
		case err != nil && ctx.Err() != nil:
			r.Log.InfoContext(ctx, "link check stopped", "report", report.String())
		case err != nil:
			r.Log.ErrorContext(ctx, "link check failed", "report", report.String(), "error", err)
		default:
			r.Log.InfoContext(ctx, "link check finished", "report", report.String())
		}
		return err
	})
	return report, err
}

// checkLinks implements the verb check-links. It succeeds if another run is in progress.
func checkLinks(ctx context.Context, cfg Config, out io.Writer) error {
	report, err := CheckLinks(ctx, cfg)
	switch {
	case errors.Is(err, ErrLinksBusy):
		fmt.Fprintln(out, err)
		return nil
	case err == nil || report.Outcomes != nil:
		fmt.Fprintln(out, report)
	}
	return err
}

// linkSettings are the settings for checking links. A process that connects to arbitrary hosts gets
// no secret except the database's.
type linkSettings struct {
	Telemetry telemetry.Config
	Database  database.Config
	Links     linkcheck.Config
	PublicURL string `env:"OPPORTUNITY_PUBLIC_URL"`
}

func loadForLinks(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[linkSettings](lookup)
	err = errors.Join(err, s.Database.Validate(), s.Links.Validate(),
		config.Address("OPPORTUNITY_PUBLIC_URL", s.PublicURL))
	if s.PublicURL == "" && s.Links.Contact == "" {
		err = errors.Join(err, errors.New("OPPORTUNITY_LINK_CHECK_CONTACT or OPPORTUNITY_PUBLIC_URL must be set"))
	}
	return Config{Telemetry: s.Telemetry, Database: s.Database, Links: s.Links, PublicURL: s.PublicURL}, err
}
