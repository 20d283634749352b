package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/cmd/opportunity/internal/up"
)

// Exit codes. Scripts tell "the service said no" from "the command was wrong" by them.
const (
	done    = 0
	refused = 1 // it was tried and did not succeed
	misused = 2 // nothing was tried
)

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:           "opportunity",
		Short:         "The Opportunity Data API: run it on this machine, or operate a running one",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(up.Command())
	root.AddCommand(operator.Commands()...)
	marked(root)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return done
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "opportunity:", err)
	if tried := (attempt{}); errors.As(err, &tried) {
		return refused
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "See '%s --help'.\n", cmd.CommandPath())
	return misused
}

// attempt marks an error that came out of a command's work. All others are about the command line.
type attempt struct{ error }

func (a attempt) Unwrap() error { return a.error }

// marked wraps the work of every command below c in attempt. A command that only groups others is misused when called alone.
func marked(c *cobra.Command) {
	switch work := c.RunE; {
	case work != nil:
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := work(cmd, args); err != nil {
				return attempt{err}
			}
			return nil
		}
	case c.HasParent():
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q of %q", args[0], cmd.CommandPath())
			}
			return errors.New("a command is missing")
		}
	}
	for _, child := range c.Commands() {
		marked(child)
	}
}
