package verbs

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
)

func (v *verbs) sample() *cobra.Command {
	var keysFile string
	c := &cobra.Command{
		Use:   "sample",
		Short: "Fill an empty deployment with fictional records",
		Long: `Import, publish and review the sample records of "opportunity up": fictional platforms on
.example domains.

The command changes nothing if the deployment has a listing. Events cannot be deleted, so do not use
it on a deployment for real records. --demo-keys also issues a key for each tier and saves it in the
file; the file's existing keys stay.`,
		Example: "  opportunity sample --demo-keys demo-keys.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			there, _, err := adminapi.ListListings.Call(cmd.Context(), c, adminapi.Input{Query: adminapi.Query("limit", "1")})
			if err != nil {
				return err
			}
			text, raw := "The deployment already has listings: nothing was changed.", `{"imported":false}`
			if len(there.Listings) == 0 {
				if err := c.ImportSample(cmd.Context(), time.Now().UTC().Truncate(time.Second)); err != nil {
					return err
				}
				text, raw = "Imported the sample records.", `{"imported":true}`
			}
			if keysFile != "" {
				if err := c.DemoKeysIn(cmd.Context(), keysFile); err != nil {
					return err
				}
			}
			v.print(cmd.OutOrStdout(), []byte(raw), func(out io.Writer) { fmt.Fprintln(out, text) })
			return nil
		},
	}
	c.Flags().StringVar(&keysFile, "demo-keys", "", "also issue a key for each tier and save them in this `FILE`")
	return c
}
