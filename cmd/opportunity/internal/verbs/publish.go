package verbs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
)

func (v *verbs) publish() *cobra.Command {
	var all, yes bool
	c := &cobra.Command{
		Use:   "publish ID...|--all",
		Short: "Make listings public; this is the editorial review, recorded with your name",
		Long: `Make listings public: all that you name, or none. Publishing is the editorial review, and
it is recorded with your name and the time. It does not verify facts: without a factual review the
record is "unverified". A listing needs at least one source.

Before it publishes more than one listing, the command shows how many were never reviewed and asks
for confirmation. In scripts, add --yes.`,
		Example: "  opportunity listings publish maple-scribe\n  opportunity listings publish --yes maple-scribe " +
			"loonie-surveys\n" +
			"  opportunity listings publish --all",
		Args: func(_ *cobra.Command, ids []string) error {
			if all == (len(ids) > 0) {
				return errors.New("name the listings to publish, or use --all, not both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			return v.report(func(cmd *cobra.Command, ids []string) (result, error) {
				body := map[string]any{"ids": ids}
				if all {
					body = map[string]any{"all": true}
				}
				if !yes && (all || len(ids) > 1) {
					tried, raw, err := call(cmd, v, adminapi.PublishListings,
						adminapi.Input{Query: adminapi.Query("dryRun", "true"), Body: body})
					if err != nil || len(tried.Rejected) > 0 {
						return imported(tried, raw, ""), err
					}
					if tried.Published > 1 {
						several := publishesSeveral{tried.Published, tried.NeverReviewed}
						if err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), several.Error()); err != nil {
							return result{}, err
						}
					}
				}
				r, raw, err := call(cmd, v, adminapi.PublishListings, adminapi.Input{Body: body})
				return imported(r, raw, fmt.Sprintf("published %d, unchanged %d", r.Updated, r.Unchanged)), err
			})(cmd, ids)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "publish every private listing")
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	return c
}

func (v *verbs) withdraw() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "withdraw ID...",
		Short: "Withdraw published listings: all that you name, or none",
		Long: `Withdraw published listings: all that you name, or none. Consumers no longer get them. At a
terminal, the command asks for confirmation; --yes skips that.`,
		Example: "  opportunity listings withdraw maple-scribe --reason \"the company closed\"",
		RunE: v.report(func(cmd *cobra.Command, ids []string) (result, error) {
			r, raw, err := call(cmd, v, adminapi.WithdrawListings,
				adminapi.Input{Body: map[string]any{"ids": ids, "reason": reason}})
			return imported(r, raw, fmt.Sprintf("withdrawn %d, unchanged %d", r.Updated, r.Unchanged)), err
		}),
	}
	needsReason(c, &reason, "why, for the list of changes")
	return asksFirst(c, func(ids []string) string {
		return fmt.Sprintf("This withdraws %s from consumers: %s.", forms.Count(len(ids), "listing", "listings"),
			strings.Join(ids, ", "))
	})
}
