package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/up"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/telemetry"
)

// Exit codes.
const (
	success    = 0
	failure    = 1 // the command ran and failed
	usageError = 2 // nothing ran
)

func newRoot(in io.Reader, out, errs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "opportunity",
		Short: "Run the Opportunity Data API, or operate a running one",
		Long: `Run the Opportunity Data API on this machine, or operate a running one.

"opportunity up" starts everything. The other commands talk to the admin listener of a gateway: that
of "up" by default, or the one at OPPORTUNITY_ADMIN_URL.

Durations are written as 30d, 12h, 90m or 1d12h.

Exit codes:
  0  success
  1  failure: the service rejected the request or could not be reached, or a check found problems
  2  usage error: unknown command or flag, or an invalid value; nothing was changed

With --output json, results are JSON on standard output and errors are JSON on standard error:
  {"error":{"code":"unreachable","message":"...","exitCode":1}}`,
		Example: `  opportunity up
  opportunity status
  opportunity keys issue --tier developer --use-case "job board for Ontario"
  opportunity help listings import`,
		Version:       telemetry.ReadBuild().String("opportunity"),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(up.Command(), up.BackupCommand(), desk.Command(), versionCommand())
	root.AddCommand(verbs.Commands()...)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}",
		"{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // uses the output that is set at this point
	root.SetFlagErrorFunc(flagError)
	prepare(root)
	return root
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot(in, out, errs)
	root.SetArgs(args)
	if !wantsJSON(args) {
		for _, warning := range config.Unknown(os.Environ()) {
			fmt.Fprintln(verbs.Printable(errs), "opportunity: warning:", warning)
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return success
	}
	if cmd.Name() == "help" {
		cmd = root
	}
	code, exit := "usage_error", usageError
	if ran := (workError{}); errors.As(err, &ran) && !errors.As(err, new(flags.UsageError)) {
		code, exit = adminapi.Code(err), failure
	}
	errs = verbs.Printable(errs) // errors quote text of others
	switch {
	case wantsJSON(args):
		report(errs, code, err, exit)
	case exit == usageError:
		fmt.Fprintf(errs, "opportunity: %v\nSee \"%s --help\".\n", err, cmd.CommandPath())
	default:
		fmt.Fprintln(errs, "opportunity:", err)
	}
	return exit
}

func versionCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the version, and the commit it was built from",
		Example: "  opportunity version\n  opportunity version --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(telemetry.ReadBuild())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), telemetry.ReadBuild().String("opportunity"))
			return err
		},
	}
	flags.Choice(c.Flags(), &output, "output", "text", "output format", "text", "json")
	return c
}

// wantsJSON reports whether the command line asks for JSON. It scans the raw arguments, because
// --output may follow a flag that could not be parsed.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	i := slices.Index(args, "--output")
	return slices.Contains(args, "--output=json") || i >= 0 && i+1 < len(args) && args[i+1] == "json"
}

func report(out io.Writer, code string, err error, exit int) {
	type detail struct {
		Code     string `json:"code"`
		Message  string `json:"message"`
		Status   int    `json:"status,omitempty"` // of the HTTP response
		ExitCode int    `json:"exitCode"`
	}
	d := detail{Code: code, Message: err.Error(), ExitCode: exit}
	if rejected := new(adminapi.RequestError); errors.As(err, &rejected) {
		d.Status = rejected.Status
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(map[string]detail{"error": d}) // no way left to report it
}
