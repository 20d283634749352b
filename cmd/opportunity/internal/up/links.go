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

// linksSwitch turns the timer of the link checker off.
const linksSwitch = "OPPORTUNITY_LINK_CHECKS"

// Links are looked after soon after the start, and then every hour: of all links, those whose time of the day has come. Each is
// asked once a day, however often the process is started.
const (
	firstLinks = time.Minute
	linksEvery = time.Hour
)

// linksWanted reads the switch.
func linksWanted() (bool, error) {
	text, set := os.LookupEnv(linksSwitch)
	if !set {
		return true, nil
	}
	wanted, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false", linksSwitch)
	}
	return wanted, nil
}

// checkLinks calls check by the timer until ctx ends. Without a contact page it calls it no more: no later run would have one.
// Whatever else keeps a run from its end, the next one takes up what is left; check has logged it.
func checkLinks(ctx context.Context, log io.Writer, check func(context.Context) error) error {
	return byTimer(ctx, firstLinks, linksEvery, func(ctx context.Context) (again bool) {
		err := check(ctx)
		if errors.Is(err, history.ErrNoContact) {
			slog.New(slog.NewJSONHandler(log, nil)).InfoContext(ctx, "links are not checked", "service", "up", "reason", err.Error())
			return false
		}
		return true
	})
}
