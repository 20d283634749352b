package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// trialKeyLife bounds the life of the key of makeCalls, in case it cannot be revoked.
const trialKeyLife = 5 * time.Minute

// trialTier is the lowest tier that can make every call.
var trialTier = api.Tiers[slices.IndexFunc(api.Tiers,
	func(t api.TierInfo) bool { return t.AllRecords && t.Limits.History })].Tier

// trialUseCase identifies the keys of makeCalls.
const trialUseCase = "opportunity status --calls"

// makeCalls makes one call of each kind through the public port: a list, a record, its history and
// an account page. It issues a key for them, revokes it, and checks that it is then rejected. Each
// error names the call that failed.
func (v *verbs) makeCalls(ctx context.Context, public string) (err error) {
	c, err := v.client()
	if err != nil {
		return err
	}
	account, err := trialAccount(ctx, c)
	if err != nil {
		return fmt.Errorf("looking for the account of earlier runs: %w", err)
	}
	key, _, err := adminapi.IssueKey.Call(ctx, c, adminapi.Input{Body: api.KeyOrder{
		Account: account, Tier: trialTier, UseCase: trialUseCase, ExpiresIn: trialKeyLife.String(),
	}})
	if err != nil {
		return fmt.Errorf("issuing a key: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTime)
		defer cancel()
		if _, _, failed := adminapi.RevokeKey.Call(ctx, c, adminapi.Input{ID: key.ID}); failed != nil {
			err = errors.Join(err, fmt.Errorf("revoking the key %s, which expires in %s: %w", key.ID, trialKeyLife, failed))
		} else if err == nil {
			_, err = trialCall(ctx, public, "list with the revoked key", "/api/v1/opportunities?limit=1", key.Key,
				http.StatusUnauthorized)
		}
	}()
	body, err := trialCall(ctx, public, "list", "/api/v1/opportunities?limit=1", key.Key, http.StatusOK)
	if err != nil {
		return err
	}
	var list api.OpportunityList
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("list: reading the response of %s: %w", public, err)
	}
	record, want := "/api/v1/opportunities/none", http.StatusNotFound // no record is published
	if len(list.Data) > 0 {
		record, want = "/api/v1/opportunities/"+list.Data[0].ID, http.StatusOK
	}
	for name, path := range map[string]string{"record": record, "history": record + "/history"} {
		if _, err := trialCall(ctx, public, name, path, key.Key, want); err != nil {
			return err
		}
	}
	_, err = trialCall(ctx, public, "account page", "/account/sign-in", "", http.StatusOK)
	return err
}

// trialAccount returns the account of earlier runs of makeCalls, or "" for a new one: accounts
// cannot be deleted, so each run would leave one. People choose the use case of their keys too, so
// the account must be one that an operator created.
func trialAccount(ctx context.Context, c adminapi.Client) (string, error) {
	list, _, err := adminapi.ListKeys.Call(ctx, c,
		adminapi.Input{Query: adminapi.Query("useCase", trialUseCase, "limit", "100")})
	if err != nil {
		return "", err
	}
	seen := map[string]bool{}
	for _, k := range list.Keys {
		if seen[k.Account] || k.Tier != trialTier {
			continue
		}
		seen[k.Account] = true
		a, _, err := adminapi.GetAccount.Call(ctx, c, adminapi.Input{ID: k.Account})
		if err != nil {
			return "", err
		}
		if a.Person == nil && a.Status == "active" {
			return a.ID, nil
		}
	}
	return "", nil
}

// trialCall makes one call and returns its body. The error of an unexpected status names the call
// and where to find its cause.
func trialCall(ctx context.Context, base, name, path, key string, want int) ([]byte, error) {
	status, header, body, err := get(ctx, base, path, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if status == want {
		return body, nil
	}
	var refusal api.Error
	if json.Unmarshal(body, &refusal) != nil || refusal.Error.Code == "" {
		refusal.Error.Code = adminapi.CodeUnexpected
	}
	return nil, &adminapi.RequestError{Status: status, Code: refusal.Error.Code, Reason: fmt.Sprintf(
		"%s: GET %s%s returned status %d (%s), expected %d. The log of the gateway has the cause under the request id %s.",
		name, base, path, status, refusal.Error.Code, want, header.Get(api.RequestIDHeader)),
	}
}
