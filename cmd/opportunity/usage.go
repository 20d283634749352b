package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/verbs"
)

// workError marks an error from a command's work. All others are mistakes on the command line.
type workError struct{ error }

func (w workError) Unwrap() error { return w.error }

// prepare gives c and every command below it errors in terms of arguments and flags, and completion
// of flags with a closed set of values.
func prepare(c *cobra.Command) {
	switch work := c.RunE; {
	case c.Name() == "help":
		c.Run, c.RunE = nil, help
	case work != nil:
		c.Args = checked(c)
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := work(cmd, args); err != nil {
				return workError{verbs.Explain(cmd, args, err)}
			}
			return nil
		}
	case c.Run == nil:
		c.Args, c.RunE, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, group, true
	}
	closed := func(f *pflag.Flag) {
		if options := flags.Options(f); options != nil {
			// f is a flag of c
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(options, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	c.NonInheritedFlags().VisitAll(closed)
	c.SuggestionsMinimumDistance = 2
	for _, child := range c.Commands() {
		prepare(child)
	}
}

func group(c *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unknown command %q%s", strings.TrimPrefix(c.CommandPath()+" "+args[0], "opportunity "),
			didYouMean(c.SuggestionsFor(args[0])))
	case c.HasParent():
		var names []string
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() {
				names = append(names, child.Name())
			}
		}
		return fmt.Errorf("missing command: use %s %s", c.CommandPath(), flags.OneOf(names...))
	}
	return c.Help()
}

func help(c *cobra.Command, args []string) error {
	found, rest, err := c.Root().Find(args)
	if err == nil && len(rest) > 0 && found.HasSubCommands() {
		return group(found, rest)
	}
	if err != nil {
		return err
	}
	return found.Help()
}

func didYouMean(suggestions []string) string {
	if len(suggestions) == 0 {
		return ""
	}
	return ": did you mean " + flags.OneOf(suggestions...) + "?"
}

// checked returns a check of the arguments against the usage line of c, then of the required flags,
// then the check that c has.
func checked(c *cobra.Command) cobra.PositionalArgs {
	own := c.Args
	return func(cmd *cobra.Command, args []string) error {
		names, least, most := arguments(cmd.Use)
		if len(args) < least {
			return fmt.Errorf("missing argument %s: usage: %s", names[len(args)], cmd.UseLine())
		}
		if most >= 0 && len(args) > most {
			return fmt.Errorf("unexpected argument %q: usage: %s", args[most], cmd.UseLine())
		}
		var missing []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
				missing = append(missing, "--"+f.Name)
			}
		})
		if len(missing) > 0 {
			return fmt.Errorf("missing %s: usage: %s", strings.Join(missing, " and "), cmd.UseLine())
		}
		if own == nil {
			return nil
		}
		return own(cmd, args)
	}
}

// arguments reads the positional arguments of a usage line such as "grant ID TIER", "publish
// ID...|--all" or "issue --tier TIER": their names, how many must be given and how many may be, -1
// for any number.
func arguments(use string) (names []string, least, most int) {
	words := strings.Fields(use)[1:]
	for i := 0; i < len(words); i++ {
		word := words[i]
		if flag := strings.TrimPrefix(word, "["); strings.HasPrefix(flag, "-") {
			if !strings.HasSuffix(word, "]") && i+1 < len(words) &&
				strings.Trim(words[i+1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ-]|") == "" {
				i++ // its value
			}
			continue
		}
		if word == "|" {
			continue
		}
		name, _, orFlag := strings.Cut(word, "|-")
		orFlag = orFlag && !strings.HasSuffix(word, "|-") // "FILE|-" is a file or standard input
		names = append(names, strings.Trim(name, "[]."))
		if !orFlag && !strings.HasPrefix(word, "[") {
			least = len(names)
		}
		if strings.Contains(name, "...") {
			return names, least, -1
		}
	}
	return names, least, len(names)
}

func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag -%s", unknown.GetSpecifiedShortnames())
	case errors.As(err, &unknown):
		alike := &cobra.Command{SuggestionsMinimumDistance: 2} // its suggestions are for commands, so each flag stands as one
		c.Flags().VisitAll(func(f *pflag.Flag) {
			alike.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
		})
		name := "--" + unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag %s%s", name, didYouMean(alike.SuggestionsFor(name)))
	case errors.As(err, &bare):
		what, _ := pflag.UnquoteUsage(bare.GetFlag())
		return fmt.Errorf("--%s needs a value: --%s %s", bare.GetSpecifiedName(), bare.GetSpecifiedName(),
			strings.ToUpper(what))
	case errors.As(err, &invalid):
		expected := fmt.Sprint(errors.Unwrap(err))
		if invalid.GetFlag().Value.Type() == "bool" {
			expected = "use true or false"
		}
		return fmt.Errorf("invalid --%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), expected)
	}
	return err
}
