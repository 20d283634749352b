package operator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/sample"
	"opportunity.internal/pkg/api"
)

// ImportSample brings in the invented records, their dates counted back from at. The same instant may be repeated.
func (c Client) ImportSample(ctx context.Context, at time.Time) error {
	s, err := sample.At(at)
	if err != nil {
		return err
	}
	listings := func(file []byte) error {
		report, _, err := c.Import(ctx, bytes.NewReader(file))
		return outcome(report.Applied, report.Refused, err)
	}
	if err := listings(s.Listings); err != nil {
		return err
	}
	published, _, err := c.Publish(ctx, s.Published, false)
	if err := outcome(published.Applied, published.Refused, err); err != nil {
		return err
	}
	appended, _, err := c.Append(ctx, bytes.NewReader(s.Events))
	if err := outcome(appended.Applied, appended.Refused, err); err != nil {
		return err
	}
	return listings(s.Edits)
}

func outcome(applied bool, refused []api.Refusal, err error) error {
	if err == nil && !applied {
		err = fmt.Errorf("refused: %v", refused)
	}
	return err
}

func (v *verbs) sample() *cobra.Command {
	return &cobra.Command{
		Use:   "sample",
		Short: "Fill a deployment without listings with invented records, to try it out",
		Long: `Import, publish and review the records with which 'opportunity up' starts: invented platforms on .example domains.

A deployment that has any listing is left as it is. Histories cannot be taken back, so this is nothing for one that is
to hold real records.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			var there bytes.Buffer
			if err := c.Export(cmd.Context(), &there); err != nil {
				return err
			}
			said, raw := "There are listings already; nothing was changed.", `{"imported":false}`
			if bytes.Count(bytes.TrimSpace(there.Bytes()), []byte("\n")) == 0 { // a header, and nothing after it
				if err := c.ImportSample(cmd.Context(), time.Now().UTC().Truncate(time.Second)); err != nil {
					return err
				}
				said, raw = "The sample is in.", `{"imported":true}`
			}
			v.print(cmd.OutOrStdout(), []byte(raw), func(out io.Writer) { fmt.Fprintln(out, said) })
			return nil
		},
	}
}
