package verbs

import (
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
)

func (v *verbs) events() *cobra.Command {
	c := &cobra.Command{Use: "events", Short: "Check and append verification events"}
	c.AddCommand(v.lintEvents(), &cobra.Command{
		Use:   "append FILE|-",
		Short: "Append a file of verification events: all of it, or nothing",
		Long: `Append a file of verification events (JSON Lines, one event on each line, without an id).

Every line is checked first. If one is wrong, each wrong line is named (beyond 200, counted),
nothing is changed and the exit code is 1. An event that was recorded before is counted as a
duplicate. Events cannot be changed: append a later event to correct one.

A line may carry lastEventId, the id of the listing's newest recorded event when it was reviewed, or
"" if there was none. If there is a newer one, nothing is appended and the newer events are shown.`,
		Example: "  opportunity events append reviews.jsonl\n  opportunity events append --output json - < reviews.jsonl",
		RunE: v.file(func(cmd *cobra.Command, file io.Reader) (result, error) {
			r, raw, err := call(cmd, v, adminapi.AppendEvents, adminapi.Input{Body: file})
			return appended(r, raw), err
		}),
	})
	return c
}

func (v *verbs) lintEvents() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE|-",
		Short: "Check an events file locally, as an append would",
		Long: `Check an events file as an append would, without a running API. It names every problem by
line and field. It does not check that each slug is the id of a listing. It says what the service
completes: sources that facts cite, and facts of a closed platform. The exit code is 1 if an append
would reject the file.`,
		Example: "  opportunity events lint reviews.jsonl",
		RunE: v.linted("events", "an append would reject the file", func(in io.Reader, _ string) (linted, error) {
			file, err := eventfile.Read(in, time.Now(), math.MaxInt)
			found := linted{valid: len(file.Lines), rejected: file.Rejected}
			for _, l := range file.Lines {
				if added := l.Added(); len(added) > 0 {
					found.completed = append(found.completed, api.RejectedLine{Line: l.Number, ID: l.Event.Slug, Problems: added})
				}
			}
			return found, err
		}),
	}
}
