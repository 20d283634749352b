// Package verbs has the commands of operators, a file for each group such as keys.
//
// Most commands are one call of the operator API. Its RunE comes from show, which prints the
// response, act, for a response without a body, or report, for a change that applies to all lines
// or none. asksFirst and needsReason add a confirmation and a reason.
//
// With --output json, commands print the response as the service sent it; otherwise text for
// people.
package verbs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

// verbs are the settings that all commands share.
type verbs struct {
	adminURL, dataDir, output string
}

// Commands returns the operators' commands.
func Commands() []*cobra.Command {
	v := new(verbs)
	groups := []*cobra.Command{
		v.listings(), v.reviews(), v.events(), v.history(), v.links(), v.keys(), v.accounts(), v.announce(), v.audit(),
		v.billing(), v.recover(), v.sample(), v.status(),
	}
	for _, c := range groups {
		f := c.PersistentFlags()
		adminapi.Flags(f, &v.adminURL, &v.dataDir)
		v.completeIDs(c)
		flags.Choice(f, &v.output, "output", "text", "output format", "text", "json")
	}
	return groups
}

func (v *verbs) client() (adminapi.Client, error) { return adminapi.NewClient(v.adminURL, v.dataDir) }

type runE = func(cmd *cobra.Command, args []string) error

// call makes one call as the operator at this machine.
func call[T any](cmd *cobra.Command, v *verbs, route adminapi.Route[T], in adminapi.Input) (T, []byte, error) {
	c, err := v.client()
	if err != nil {
		return *new(T), nil, err
	}
	return route.Call(cmd.Context(), c, in)
}

// show returns the work of a command that makes one call. It prints the response as JSON, or as
// text does.
func show[T any](v *verbs, route adminapi.Route[T], input func(args []string) adminapi.Input,
	text func(out io.Writer, response T)) runE {
	return func(cmd *cobra.Command, args []string) error {
		response, raw, err := call(cmd, v, route, input(args))
		if err == nil {
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { text(out, response) })
		}
		return err
	}
}

// act is like show, for a route whose response is empty. It prints the sentence that done returns.
func (v *verbs) act(route adminapi.Route[any], input func(args []string) adminapi.Input,
	done func(args []string) string) runE {
	return func(cmd *cobra.Command, args []string) error {
		return show(v, route, input, func(out io.Writer, _ any) { fmt.Fprintln(out, done(args)) })(cmd, args)
	}
}

// withID is the input of a call about the thing that the first argument names.
func withID(args []string) adminapi.Input { return adminapi.Input{ID: args[0]} }

// withReason is withID with a reason in the body.
func withReason(reason *string) func(args []string) adminapi.Input {
	return func(args []string) adminapi.Input {
		return adminapi.Input{ID: args[0], Body: map[string]string{"reason": *reason}}
	}
}

// ifTrue returns the value of a parameter that is set if on is.
func ifTrue(on bool) string {
	if on {
		return "true"
	}
	return ""
}

// number returns the value of a parameter that is set unless n is 0.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// page selects entries of a list.
type page struct {
	after string
	limit int // 0: the service's default
}

func pageFlags(c *cobra.Command, p *page) {
	usage := fmt.Sprintf("maximum number of entries, up to %d", api.MaxOperatorPageSize)
	flags.Number(c.Flags(), &p.limit, "limit", 0, usage)
	c.Flags().StringVar(&p.after, "after", "", "start after the entry with this id")
}

// input returns the input of a list with the filters, which are names and values.
func (p page) input(filters ...string) adminapi.Input {
	return adminapi.Input{Query: adminapi.Query(append(filters, "after", p.after, "limit", number(int64(p.limit)))...)}
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
