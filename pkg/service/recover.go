package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Recovery is an operator's decision about a database that was set back: to accept the loss, or
// that nothing was lost.
type Recovery struct {
	Current  bool // nothing was lost: the marks are wrong
	Operator string
}

// Run calls decide. If nothing was decided because the database is not set back, it says so on out
// and returns nil, so that a script can run it for every database.
func (Recovery) Run(out io.Writer, decide func() error) error {
	err := decide()
	if errors.Is(err, errNothingToDecide) {
		_, err = fmt.Fprintln(out, err)
	}
	return err
}

// RecoverVerb returns the verb recover of a service.
func RecoverVerb[C any](
	service string, load func(lookup func(string) (string, bool)) (C, error),
	run func(ctx context.Context, cfg C, decision Recovery, out io.Writer) error,
) Verb[C] {
	v := Verb[C]{
		Usage: "--accept|--current --operator NAME", Load: load,
		Help: "Decide what becomes of a database that was set back.",
	}
	v.Run = func(ctx context.Context, cfg C, args []string) error {
		decision, err := parseRecovery(args)
		if err != nil {
			return fmt.Errorf("%w: usage: %s recover %s", err, service, v.Usage)
		}
		return decision.Run(os.Stdout, func() error { return run(ctx, cfg, decision, os.Stdout) })
	}
	return v
}

func parseRecovery(args []string) (r Recovery, err error) {
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	accept := flags.Bool("accept", false, "")
	flags.BoolVar(&r.Current, "current", false, "")
	flags.StringVar(&r.Operator, "operator", "", "")
	err = flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *accept == r.Current:
		err = errors.New("no decision: choose one")
	case r.Operator == "":
		err = errors.New("--operator is missing, the name that is recorded")
	}
	return r, err
}
