package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/telemetry"
)

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
