package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Recovery is an operator's decision about a database that was set back: to add what it lacks from a file, or to accept the loss.
type Recovery struct {
	Replay   string // path of the file
	Operator string // who accepts the loss; unused with Replay
}

// RecoverVerb returns the verb recover of a service. Only with replays, run gets a Recovery with a file.
func RecoverVerb[C any](
	service string, replays bool, load func(lookup func(string) (string, bool)) (C, error),
	run func(ctx context.Context, cfg C, decision Recovery, out io.Writer) error,
) Verb[C] {
	v := Verb[C]{Usage: "--accept --operator NAME", Load: load}
	if replays {
		v.Usage += " | --replay FILE"
	}
	v.Run = func(ctx context.Context, cfg C, args []string) error {
		decision, err := parseRecovery(args, replays)
		if err != nil {
			return fmt.Errorf("%w: usage: %s recover %s", err, service, v.Usage)
		}
		return run(ctx, cfg, decision, os.Stdout)
	}
	return v
}

func parseRecovery(args []string, replays bool) (r Recovery, err error) {
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	accept := flags.Bool("accept", false, "")
	flags.StringVar(&r.Operator, "operator", "", "")
	if replays {
		flags.StringVar(&r.Replay, "replay", "", "")
	}
	err = flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *accept == (r.Replay != ""):
		err = errors.New("no decision: choose one")
	case *accept && r.Operator == "":
		err = errors.New("--accept needs --operator, the name that is recorded")
	}
	return r, err
}
