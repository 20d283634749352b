package up

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/cmd/opportunity/internal/flags"
)

// Command returns the command `opportunity up`.
func Command() *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the whole API on this machine, with no other software",
		Long: `Run the gateway and all services in one process, on SQLite files and an embedded Redis
server.

The first start in a data directory imports sample records, issues three demo keys and prints a curl
command that works. Stop it with Ctrl-C; the next start has all data, keys and today's counters. The
log is log.jsonl in the data directory; at 64 MiB it continues in a new file, and log.jsonl.1 has
what was before. "opportunity backup" copies the data directory while this runs.

It prints a URL that signs you in to the curation desk once, within 15 minutes. After that, sign in
with the token in the file operator-token of the data directory.

If an address is in use, choose another one with --listen or --admin-listen. The other commands then
need OPPORTUNITY_ADMIN_URL.

The application links of real listings are checked once a day if the public URL, or
OPPORTUNITY_LINK_CHECK_CONTACT, is a page that site owners can open. Set
OPPORTUNITY_LINK_CHECKS=false to turn that off. The sample's links are never requested.

The services' own settings apply too, such as OPPORTUNITY_SERVICE_CAPACITY, OPPORTUNITY_PUBLIC_URL
and OTEL_*.`,
		Example: `  opportunity up
  opportunity up --seed none --data-dir /var/lib/opportunity --listen 127.0.0.1:9000 --admin-listen 127.0.0.1:9001`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.AnyDeskPort = !cmd.Flags().Changed("desk-listen")
			o.Out, o.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if _, set := os.LookupEnv("GOGC"); !set { // all services share the heap, and the catalog lets its own grow fourfold
				_ = os.Setenv("GOGC", "100")
			}
			return Run(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "public address; port 0 picks a free port")
	f.StringVar(&o.AdminListen, "admin-listen", adminapi.DefaultAdmin, "address of the admin listener")
	f.StringVar(&o.DeskListen, "desk-listen", desk.DefaultListen,
		"loopback address of the curation desk; if the default is in use, a free port")
	f.StringVar(&o.OperationsListen, "operations-listen", "127.0.0.1:0",
		"address of the gateway's /metrics; catalog, history, authquota and billing use the next ports; port 0 picks "+
			"free ports")
	dataDirFlag(c, &o.DataDir)
	flags.Choice(f, &o.Seed, "seed", "sample", "records that the first start imports", "sample", "none")
	return c
}

func dataDirFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), adminapi.DefaultDataDir),
		"directory for all data; also from OPPORTUNITY_DATA_DIR")
}
