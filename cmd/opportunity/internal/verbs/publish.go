package verbs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
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
			return v.report(func(ctx context.Context, c adminapi.Client, ids []string) (result, error) {
				if !yes && (all || len(ids) > 1) {
					tried, raw, err := c.Publish(ctx, ids, all, true)
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
				r, raw, err := c.Publish(ctx, ids, all, false)
				return imported(r, raw, fmt.Sprintf("published %d, unchanged %d", r.Updated, r.Unchanged)), err
			})(cmd, ids)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "publish every private listing")
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	return c
}

func neverReviewed(n int) string { return fmt.Sprintf("%d of them never reviewed", n) }

// stillWithdrawn lists the listings that an import left withdrawn although the file has them as
// published.
func stillWithdrawn(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%d stay withdrawn although the file has them as published: %s\npublish them again with: "+
		"opportunity listings publish ID...",
		len(ids), strings.Join(ids, ", "))
}

// confirm prints what is about to happen. It returns an error unless a person at a terminal
// confirms.
func confirm(in io.Reader, out io.Writer, what string) error {
	fmt.Fprintln(Printable(out), what)
	if !terminal(in) {
		return errors.New("standard input is not a terminal: add --yes to skip the confirmation; nothing was changed")
	}
	return agree(bufio.NewReader(in), out)
}

// agree asks until a person enters yes or no. It returns an error unless they enter yes.
func agree(in *bufio.Reader, out io.Writer) error {
	for {
		fmt.Fprint(out, "Continue? (yes, no): ")
		answer, err := in.ReadString('\n')
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "yes", "y":
			return nil
		case "no", "n":
			return errors.New("nothing was changed")
		}
		if err != nil {
			fmt.Fprintln(out)
			return errors.New("no answer: add --yes to skip the confirmation; nothing was changed")
		}
	}
}

// confirmed asks a person at a terminal to confirm what is about to happen. Without a terminal it
// returns nil: scripts need no --yes.
func confirmed(cmd *cobra.Command, yes bool, what string) error {
	if yes || !terminal(cmd.InOrStdin()) {
		return nil
	}
	return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), what)
}

// checkReason returns the usage error of a blank --reason.
func checkReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return flags.Usage("missing --reason: say why")
	}
	return nil
}

// terminal reports whether in is a terminal. Tests replace it.
var terminal = func(in io.Reader) bool {
	file, is := in.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	null, err2 := os.Stat(os.DevNull)
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && (err2 != nil || !os.SameFile(info, null))
}
