package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"opportunity.internal/pkg/api"
)

// ImportSample imports the fictional records with dates relative to at. Repeating it with the same
// at changes nothing.
func (c Client) ImportSample(ctx context.Context, at time.Time) error {
	s, err := SampleAt(at)
	if err != nil {
		return err
	}
	listings := func(file []byte) error {
		report, _, err := c.Import(ctx, bytes.NewReader(file), "", false)
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

func outcome(applied bool, rejected []api.RejectedLine, err error) error {
	if err == nil && !applied {
		err = fmt.Errorf("rejected: %v", rejected)
	}
	return err
}

// DemoKeys issues a key for each tier that is missing in keys. It calls save after each, so an
// interruption loses at most one key.
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

// DemoKeysIn is DemoKeys with the keys in a file of mode 0600.
func (c Client) DemoKeysIn(ctx context.Context, file string) error {
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
