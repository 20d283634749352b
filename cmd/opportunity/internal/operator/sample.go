package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
		return outcome(report.Applied, report.Rejected, err)
	}
	if err := listings(s.Listings); err != nil {
		return err
	}
	published, _, err := c.Publish(ctx, s.Published, false, false)
	if err := outcome(published.Applied, published.Rejected, err); err != nil {
		return err
	}
	appended, _, err := c.Append(ctx, bytes.NewReader(s.Events))
	if err := outcome(appended.Applied, appended.Rejected, err); err != nil {
		return err
	}
	return listings(s.Edits)
}

func outcome(applied bool, refused []api.RejectedLine, err error) error {
	if err == nil && !applied {
		err = fmt.Errorf("refused: %v", refused)
	}
	return err
}

// DemoKeys adds a key for each tier that keys has none for, and calls save after each, so that one that is cut off loses one key
// at most.
func (c Client) DemoKeys(ctx context.Context, useCase string, keys map[api.Tier]string, save func() error) error {
	for _, t := range api.Tiers {
		if keys[t.Tier] != "" {
			continue
		}
		key, _, err := c.IssueKey(ctx, KeyRequest{Tier: t.Tier, UseCase: useCase, Test: true})
		if err != nil {
			return err
		}
		keys[t.Tier] = key.Key
		if err := save(); err != nil {
			return err
		}
	}
	return nil
}

// demoKeysIn is DemoKeys with a file in which the keys are kept, for its owner's eyes only.
func (c Client) demoKeysIn(ctx context.Context, file string) error {
	keys := map[api.Tier]string{}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return c.DemoKeys(ctx, "demo key", keys, func() error {
		text, err := json.MarshalIndent(keys, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(file, append(text, '\n'), 0o600)
	})
}

func (v *verbs) sample() *cobra.Command {
	var keysFile string
	c := &cobra.Command{
		Use:   "sample",
		Short: "Fill an empty deployment with invented records, to try it out",
		Long: `Import, publish and review the sample records of "opportunity up": invented platforms on .example domains.

A deployment with any listing is not changed. Histories cannot be undone, so do not use this where real records will follow.
--demo-keys also issues a key for each tier and saves them in the file; keys already there are kept.`,
		Example: "  opportunity sample --demo-keys demo-keys.json",
		Args:    cobra.NoArgs,
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
			if keysFile != "" {
				if err := c.demoKeysIn(cmd.Context(), keysFile); err != nil {
					return err
				}
			}
			v.print(cmd.OutOrStdout(), []byte(raw), func(out io.Writer) { fmt.Fprintln(out, said) })
			return nil
		},
	}
	c.Flags().StringVar(&keysFile, "demo-keys", "", "also issue a key for each tier and save them in this `FILE`")
	return c
}
