package desk

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
)

// DefaultListen is the address of the desk, also with `opportunity up`.
const DefaultListen = "127.0.0.1:8082"

// Command returns the command `opportunity desk`.
func Command() *cobra.Command {
	var listen, publicURL, adminURL, dataDir string
	c := &cobra.Command{
		Use:   "desk",
		Short: "Serve the curation desk: web pages to review and publish listings",
		Long: `Serve the curation desk: web pages on which curators review, publish and manage listings.
"opportunity up" serves it too.

The desk is a client of the admin listener, like the other commands. You sign in with your operator
token. If the command finds a token, as the other commands do, it also prints a URL that signs you
in once, within 15 minutes.

On a loopback address, browsers reach the desk as localhost. On any other address, put a proxy with
TLS in front and set --public-url to its URL. The desk accepts requests for that host only. Stop it
with Ctrl-C; that ends all sessions, but drafts are stored.`,
		Example: `  opportunity desk
  opportunity desk --listen 127.0.0.1:9002 --admin-url http://127.0.0.1:9001
  opportunity desk --listen :8082 --public-url https://desk.example.com`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(listen); err != nil {
				return flags.Usage("invalid --listen %q: use HOST:PORT, such as %s", listen, DefaultListen)
			}
			client, err := adminapi.NewClient(adminURL, dataDir)
			if err != nil && adminapi.Code(err) != adminapi.CodeNoToken {
				return err
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("cannot listen on %s: %w", listen, err)
			}
			defer listener.Close()
			d, err := New(Options{
				Listener: listener, PublicURL: publicURL, AdminURL: adminURL, Now: time.Now,
				Token: client.Token, Actor: client.Actor,
				Log: slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)),
			})
			if err != nil {
				return flags.Usage("%w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Curation desk: "+d.SignInURL())
			return d.Run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", DefaultListen, "address to listen on; port 0 picks a free port")
	f.StringVar(&publicURL, "public-url", os.Getenv("OPPORTUNITY_DESK_URL"),
		"URL of the desk in browsers, also from OPPORTUNITY_DESK_URL; default http://localhost with the port")
	adminapi.Flags(f, &adminURL, &dataDir)
	return c
}
