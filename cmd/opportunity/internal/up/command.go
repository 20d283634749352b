package up

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/operator"
)

// Command is `opportunity up`.
func Command() *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the whole API on this machine, with nothing else installed",
		Long: `Run the gateway and all services in this process, on SQLite files and an embedded Redis server.

The first start on a data directory imports the sample records, issues three demo keys and prints a curl line that works.
Ctrl-C ends it; the next start has all data, keys and today's counters. The log is in the data directory, log.jsonl.
Application links of real listings are checked once a day, where the public URL or OPPORTUNITY_LINK_CHECK_CONTACT names a page
that owners of sites can open; OPPORTUNITY_LINK_CHECKS=false turns that off. The samples are on reserved names and never asked.
The settings of the services (OPPORTUNITY_SERVICE_CAPACITY, OPPORTUNITY_PUBLIC_URL, OTEL_* and so on) are honoured.`,
		Example: `  opportunity up
  opportunity up --seed none --data-dir /var/lib/opportunity --listen 127.0.0.1:9000 --admin-listen 127.0.0.1:9001`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out, o.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return Run(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "public address; port 0 picks a free one")
	f.StringVar(&o.AdminListen, "admin-listen", operator.DefaultAdmin, "address for operators")
	f.StringVar(&o.DataDir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), operator.DefaultDataDir),
		"where everything is kept, also from OPPORTUNITY_DATA_DIR")
	flags.Choice(f, &o.Seed, "seed", "sample", "records that the first start imports", "sample", "none")
	return c
}
