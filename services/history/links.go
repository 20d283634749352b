package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/progress"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/linkcheck"
	"opportunity.internal/services/history/internal/store"
)

// contactPage is where the gateway serves what owners of sites should know.
const contactPage = "/docs/link-checker"

var (
	// ErrLinksBusy is what CheckLinks fails with while another run is going on, of this process or another.
	ErrLinksBusy = linkcheck.ErrBusy
	// ErrNoContact is what CheckLinks fails with where its requests would name no page of ours that strangers can open.
	ErrNoContact = linkcheck.ErrNoContact
)

// LinkReport is what a run of the link checker did; as text it is one line for people.
type LinkReport = linkcheck.Report

// CheckLinks asks every application link that is due and appends what came of each. It needs the database and the internet, and
// no peer: which listings are published it reads in the copy that the serving process keeps. When ctx ends it asks no more
// links, and comes back when those under way are recorded; what is left stays due.
func CheckLinks(ctx context.Context, cfg Config) (LinkReport, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Links.Contact == "" {
		cfg.Links.Contact = cfg.PublicURL + contactPage
	}
	transport, err := linkcheck.NewTransport(cfg.Links)
	if err != nil {
		return LinkReport{}, err
	}
	checker, err := linkcheck.New(cfg.Links, transport, cfg.Now)
	if err != nil {
		return LinkReport{}, err
	}
	checker.Progress = cfg.Progress
	var report LinkReport
	err = opened(ctx, cfg, func(s *store.Store, tel *telemetry.Telemetry) (err error) {
		report, err = checker.Once(ctx, s)
		switch {
		case errors.Is(err, ErrLinksBusy):
			tel.Log.InfoContext(ctx, "link checks left to another run")
		case err != nil:
			tel.Log.ErrorContext(ctx, "link checks", "did", report.String(), "error", err)
		default:
			tel.Log.InfoContext(ctx, "link checks", "did", report.String())
		}
		return err
	})
	return report, err
}

// checkLinks is the verb. That another run is going on is no failure of this one: the links are in good hands.
func checkLinks(ctx context.Context, cfg Config, out io.Writer) error {
	bar := progress.New(os.Stderr, "checking links")
	cfg.Progress = bar.Set
	report, err := CheckLinks(ctx, cfg)
	bar.Done()
	switch {
	case errors.Is(err, ErrLinksBusy):
		fmt.Fprintln(out, err)
		return nil
	case err == nil || report.Outcomes != nil:
		fmt.Fprintln(out, report)
	}
	return err
}

// linkSettings are all that checking links needs: the one process that asks strangers holds no secret but its database's.
type linkSettings struct {
	Telemetry telemetry.Config
	Database  database.Config
	Links     linkcheck.Config
	PublicURL string `env:"OPPORTUNITY_PUBLIC_URL"`
}

func loadForLinks(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[linkSettings](lookup)
	err = errors.Join(err, s.Database.Validate(), s.Links.Validate(), config.Address("OPPORTUNITY_PUBLIC_URL", s.PublicURL))
	if s.PublicURL == "" && s.Links.Contact == "" {
		err = errors.Join(err, errors.New("OPPORTUNITY_LINK_CHECK_CONTACT or OPPORTUNITY_PUBLIC_URL must be set"))
	}
	return Config{Telemetry: s.Telemetry, Database: s.Database, Links: s.Links, PublicURL: s.PublicURL}, err
}
