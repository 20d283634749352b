package verbs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// confirm prints what is about to happen. It returns an error unless a person at a terminal enters
// yes.
func confirm(in io.Reader, out io.Writer, what string) error {
	fmt.Fprintln(Printable(out), what)
	if !terminal(in) {
		return errors.New("standard input is not a terminal: add --yes to skip the confirmation; nothing was changed")
	}
	fmt.Fprint(out, "Continue? (yes, no): ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	switch answer = strings.ToLower(strings.TrimSpace(answer)); {
	case answer == "yes", answer == "y":
		return nil
	case answer == "" && err != nil:
		return errors.New("no answer: add --yes to skip the confirmation; nothing was changed")
	}
	return errors.New("nothing was changed")
}

// asksFirst adds the flag --yes to a command, without which it asks a person at a terminal to
// confirm what is about to happen. Without a terminal it does not ask: scripts need no --yes.
func asksFirst(c *cobra.Command, what func(args []string) string) *cobra.Command {
	yes := c.Flags().Bool("yes", false, "skip the confirmation")
	work := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !*yes && terminal(cmd.InOrStdin()) {
			if err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), what(args)); err != nil {
				return err
			}
		}
		return work(cmd, args)
	}
	return c
}

// needsReason adds the flag --reason to a command, which must not be blank.
func needsReason(c *cobra.Command, reason *string, usage string) {
	c.Flags().StringVar(reason, "reason", "", usage)
	c.PreRunE = func(*cobra.Command, []string) error {
		if strings.TrimSpace(*reason) == "" {
			return errors.New("missing --reason: say why")
		}
		return nil
	}
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
