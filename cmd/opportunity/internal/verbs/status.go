package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// statusTime limits the whole status command, without the time to wait.
const statusTime = 10 * time.Second

func (v *verbs) status() *cobra.Command {
	var public string
	var calls bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "status",
		Short: "Check that every service is ready, and show what a free key can see",
		Long: `Check that every service is ready, and list what is missing. That needs no token. With an
operator token, the command also shows how many records the free tier can see, and why the other
published records are excluded. The exit code does not depend on that.

With --calls, it also issues a key, requests a list, a record, its history and an account page at
--public-url, and revokes the key.`,
		Example: "  opportunity status\n" +
			"  opportunity status --public-url https://data.example.com --calls",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := adminapi.CheckURL("admin-url", v.adminURL); err != nil {
				return err
			}
			if err := adminapi.CheckURL("public-url", public); public != "" && err != nil {
				return err
			}
			if calls && public == "" {
				return flags.Usage("missing --public-url: --calls needs the address to call")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait+statusTime)
			defer cancel()
			until := time.Now().Add(wait)
			state, err := ready(ctx, v.adminURL)
			for err != nil && time.Now().Before(until) && ctx.Err() == nil {
				select {
				case <-time.After(time.Second / 2):
				case <-ctx.Done(): // the next request fails with the reason
				}
				state, err = ready(ctx, v.adminURL)
			}
			if err == nil {
				state.FreeSet = v.freeSet(ctx, cmd.ErrOrStderr())
			}
			if state != nil {
				raw, _ := json.Marshal(state) // texts and numbers
				v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
					if err == nil {
						fmt.Fprintln(out, "ready")
						showFreeSet(out, state.FreeSet)
						for _, note := range state.Notes {
							fmt.Fprintln(out, note)
						}
					}
				})
			}
			if err == nil && public != "" {
				err = guarded(ctx, public)
			}
			if err == nil && calls {
				err = v.makeCalls(ctx, public)
			}
			return err
		},
	}
	c.Flags().StringVar(&public, "public-url", "", "also check that the public port rejects a request without a key")
	c.Flags().DurationVar(&wait, "wait", 0, "wait this long for every service to be ready")
	c.Flags().BoolVar(&calls, "calls", false, "also make one call of each kind at --public-url; needs an operator token")
	return c
}

// freeSet returns what the free tier can see. If the lookup fails, it prints the reason to errs and
// returns nil.
func (v *verbs) freeSet(ctx context.Context, errs io.Writer) *api.FreeSet {
	c, err := v.client()
	if err == nil {
		var status api.CatalogStatus
		if status, _, err = adminapi.GetCatalog.Call(ctx, c, adminapi.Input{}); err == nil {
			return &status.FreeSet
		}
	}
	fmt.Fprintln(errs, "free set unknown:", err)
	return nil
}

func showFreeSet(out io.Writer, set *api.FreeSet) {
	if set == nil {
		return
	}
	fmt.Fprintf(out, "free set: %d of at most %d records\n", set.Records, set.Limit)
	fmt.Fprintf(out, "published: %d, of them %d never reviewed, %d need review, %d stale, %d verified but not open, %d "+
		"beyond the limit\n",
		set.Published, set.NeverReviewed, set.NeedsReview, set.Stale, set.NotOpen, set.BeyondLimit)
	if set.Records == 0 {
		fmt.Fprintln(out, "A free key gets an empty list: no published record is verified and open. See: opportunity "+
			"reviews due")
	}
}

// readiness is the response of /readyz, with what the free tier can see.
type readiness struct {
	Status  string       `json:"status"`
	Missing []string     `json:"missing,omitempty"`
	Faults  []string     `json:"faults,omitempty"`
	Notes   []string     `json:"notes,omitempty"`
	FreeSet *api.FreeSet `json:"freeSet,omitempty"` // nil if unknown
}

// ready requests /readyz of the admin listener. Its error names what is missing.
func ready(ctx context.Context, base string) (*readiness, error) {
	status, header, raw, err := get(ctx, base, "/readyz", "")
	if err != nil {
		return nil, err
	}
	state := new(readiness)
	switch err := json.Unmarshal(raw, state); {
	case err != nil || state.Status == "":
		return nil, adminapi.Unexpected(base, status, header)
	case status != http.StatusOK:
		return state, errors.New("not ready: " + strings.Join(state.Missing, ", "))
	}
	return state, nil
}

// guarded checks that public is a gateway: it sends a request without a key and expects the
// gateway's own error, which no proxy or default page returns.
func guarded(ctx context.Context, public string) error {
	status, _, raw, err := get(ctx, public, "/api/v1/opportunities", "")
	if err != nil {
		return err
	}
	var refusal api.Error
	if json.Unmarshal(raw, &refusal) != nil || refusal.Error.Code != string(problem.MissingAPIKey) {
		return &adminapi.RequestError{Status: status, Code: adminapi.CodeUnexpected, Reason: fmt.Sprintf(
			"%s is not a gateway: it returned status %d to a request without a key. Check --public-url.", public, status)}
	}
	return nil
}

// get requests a path of base, with an API key unless it is empty, and returns the body without
// surrounding white space.
func get(ctx context.Context, base, path, key string) (status int, header http.Header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil, adminapi.Unreachable(base, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, nil, nil, adminapi.Unreachable(base, err)
	}
	return resp.StatusCode, resp.Header, bytes.TrimSpace(body), nil
}
