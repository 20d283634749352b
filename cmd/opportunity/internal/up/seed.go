package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/cmd/opportunity/internal/sample"
	"opportunity.internal/pkg/api"
)

// The files that say how far a first start has come. A start that was cut off is completed by the next one.
const (
	seedFile = "seed.json"
	keysFile = "demo-keys.json"
)

// seeding is what is remembered of the sample's import.
type seeding struct {
	Seed string    `json:"seed"` // sample or none, as the first start was told
	At   time.Time `json:"at"`   // the instant that the sample's dates count from; kept, so that a repeated import repeats itself
	Done bool      `json:"done"`
}

// seed brings the sample in on a first start, by the operator's verbs, unless a start that was cut off already did. sampled
// reports whether it is there.
func seed(ctx context.Context, dir *dataDir, c operator.Client, kind string) (sampled bool, err error) {
	state := seeding{Seed: kind, At: time.Now().UTC().Truncate(time.Second)}
	if err := dir.read(seedFile, &state); err != nil || state.Done {
		return state.Seed == "sample", err
	}
	if err := dir.save(seedFile, state); err != nil {
		return false, err
	}
	if state.Seed == "sample" {
		if err := c.ImportSample(ctx, state.At); err != nil {
			return false, fmt.Errorf("sample: %w", err)
		}
	}
	state.Done = true
	return state.Seed == "sample", dir.save(seedFile, state)
}

// demoUse is the use case of demo keys, by which a later start knows its own.
const demoUse = "demo key of this machine"

// demoKeys adds a key for each tier that keys has none for, and writes them down.
func demoKeys(ctx context.Context, dir *dataDir, c operator.Client, keys map[api.Tier]string) error {
	err := revokeLost(ctx, c, keys)
	if err == nil {
		err = c.DemoKeys(ctx, demoUse, keys, func() error { return dir.save(keysFile, keys) })
	}
	if err != nil {
		return fmt.Errorf("demo keys: %w", err)
	}
	return nil
}

// revokeLost revokes the demo key that a start issued and did not live to write down.
func revokeLost(ctx context.Context, c operator.Client, keys map[api.Tier]string) error {
	all, _, err := c.KeyList(ctx, "", operator.Page{})
	if err != nil {
		return err
	}
	for _, k := range all.Keys {
		if k.UseCase == demoUse && !strings.HasSuffix(keys[k.Tier], k.LastFour) {
			if _, err := c.RevokeKey(ctx, k.ID, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle waits until the catalog and the history answer with the whole sample: what is appended to one travels to the other by
// pull. Without it the first call after a first start could find fewer verified records than the second. Its end is no
// condition of anything, so it gives up after a while.
func settle(ctx context.Context, catalogURL, historyURL, token string) {
	records, err := sample.Load(time.Now())
	if err != nil {
		return
	}
	verified, reviewed := 0, ""
	for _, r := range records {
		if r.Shows == string(api.Verified) {
			verified, reviewed = verified+1, r.ID()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var list api.OpportunityList
		var events api.EventList
		err := errors.Join(
			consume(ctx, catalogURL+"/api/v1/opportunities?verified=true&limit=1", token, &list),
			consume(ctx, historyURL+"/api/v1/opportunities/"+reviewed+"/history", token, &events))
		if err == nil && list.Pagination.Total == verified {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// consume asks a service for what the gateway would ask it on behalf of a caller with every right.
func consume(ctx context.Context, url, token string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	caller, err := json.Marshal(api.Caller{Tier: api.Commercial, PageSize: 100, History: true})
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(api.CallerHeader, string(caller))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, out)
}
