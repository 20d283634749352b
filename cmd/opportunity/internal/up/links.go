package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"opportunity.internal/services/history"
)

// linkChecksSetting is the setting that turns link checks off.
const linkChecksSetting = "OPPORTUNITY_LINK_CHECKS"

// Schedule of link check runs. Each run checks only the links that are due, so each link is
// requested once a day, no matter how often the process starts.
const (
	firstLinkCheck    = time.Minute
	linkCheckInterval = time.Hour
)

// linkChecksEnabled reports whether link checks are on, which is the default. It returns an error
// if the setting is not a boolean.
func linkChecksEnabled() (bool, error) {
	text, set := os.LookupEnv(linkChecksSetting)
	if !set {
		return true, nil
	}
	enabled, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false", linkChecksSetting)
	}
	return enabled, nil
}

// linksOff returns why links are not checked and pages not read again, and how to switch that on;
// "" if they are.
func (d *deployment) linksOff() string {
	const off = "Link checks are off, and pages are not read again: "
	if !d.links {
		return off + linkChecksSetting + " is false. Set it to true to switch them on."
	}
	if err := history.CheckContact(d.history); err != nil {
		return off + "site owners could not open the contact page under " + d.publicURL +
			". To switch them on, set OPPORTUNITY_PUBLIC_URL to a public address, or OPPORTUNITY_LINK_CHECK_CONTACT to a " +
			"public page."
	}
	return ""
}

// checkLinks calls check on its schedule and on each value of wake until ctx ends. It stops calling check after
// history.ErrNoContact, because the contact page cannot appear later. It ignores other errors:
// check logs them, and the next run continues.
func checkLinks(
	ctx context.Context, log io.Writer, wake <-chan struct{}, check func(context.Context) error,
) error {
	return runEvery(ctx, firstLinkCheck, linkCheckInterval, wake, func(ctx context.Context) (again bool) {
		err := check(ctx)
		if errors.Is(err, history.ErrNoContact) {
			slog.New(slog.NewJSONHandler(log, nil)).InfoContext(ctx, "link checks disabled: no contact page", "service", "up",
				"reason", err.Error())
			return false
		}
		return true
	})
}
