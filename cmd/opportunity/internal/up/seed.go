package up

import (
	"context"
	"fmt"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// Files that record the progress of the first start. The next start completes an interrupted one.
const (
	seedFile = "seed.json"
	keysFile = "demo-keys.json"
)

// seedState is the saved state of the sample import.
type seedState struct {
	Seed string    `json:"seed"` // sample or none, from --seed of the first start
	At   time.Time `json:"at"`   // base of the sample's dates, saved so that a repeated import is identical
	Done bool      `json:"done"`
}

// seed imports the sample through the admin listener, unless an earlier start has done so.
// hasSample reports whether this deployment has the sample.
func seed(ctx context.Context, dir *dataDir, c adminapi.Client, kind string) (hasSample bool, err error) {
	state := seedState{Seed: kind, At: time.Now().UTC().Truncate(time.Second)}
	if err := dir.Read(seedFile, &state); err != nil || state.Done {
		return state.Seed == "sample", err
	}
	if err := dir.Save(seedFile, state); err != nil {
		return false, err
	}
	if state.Seed == "sample" {
		if err := c.ImportSample(ctx, state.At); err != nil {
			return false, fmt.Errorf("sample: %w", err)
		}
	}
	state.Done = true
	return state.Seed == "sample", dir.Save(seedFile, state)
}

// demoUseCase is the use case of demo keys. A later start recognizes them by it.
const demoUseCase = "demo key of this machine"

// demoKeys issues a key for each tier that is missing in keys, and saves them.
func demoKeys(ctx context.Context, dir *dataDir, c adminapi.Client, keys map[api.Tier]string) error {
	err := revokeUnsavedKeys(ctx, c, keys)
	if err == nil {
		err = c.DemoKeys(ctx, demoUseCase, keys, func() error { return dir.Save(keysFile, keys) })
	}
	if err != nil {
		return fmt.Errorf("demo keys: %w", err)
	}
	return nil
}

// revokeUnsavedKeys revokes demo keys that are not in keys: an interrupted start issued them but
// did not save them.
func revokeUnsavedKeys(ctx context.Context, c adminapi.Client, keys map[api.Tier]string) error {
	all, _, err := adminapi.ListKeys.Call(ctx, c, adminapi.Input{})
	if err != nil {
		return err
	}
	for _, k := range all.Keys {
		if k.UseCase == demoUseCase && !strings.HasSuffix(keys[k.Tier], k.LastFour) {
			if _, _, err := adminapi.RevokeKey.Call(ctx, c, adminapi.Input{ID: k.ID}); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForSample waits until catalog and history serve the whole sample. They follow each other, so
// the first request could otherwise return fewer verified records than the second. Nothing depends
// on it, so it gives up after 5 s.
func waitForSample(ctx context.Context, c adminapi.Client) {
	records, err := adminapi.LoadSample(time.Now())
	if err != nil {
		return
	}
	verified, last := 0, ""
	for _, r := range records {
		if last = r.ID(); r.Shows == string(api.Verified) {
			verified++
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		catalog, _, err := adminapi.GetCatalog.Call(ctx, c, adminapi.Input{})
		_, _, unknown := adminapi.GetPages.Call(ctx, c, adminapi.Input{ID: last})
		free := catalog.FreeSet
		if err == nil && unknown == nil && free.Records+free.NotOpen+free.BeyondLimit == verified {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
