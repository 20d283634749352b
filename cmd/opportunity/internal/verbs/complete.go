package verbs

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
)

// completeIDs lets the shell complete the ids that the commands of a group take.
func (v *verbs) completeIDs(group *cobra.Command) {
	for _, c := range group.Commands() {
		if !strings.Contains(c.Use, " ID") {
			continue
		}
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (all []string, _ cobra.ShellCompDirective) {
			switch {
			case len(args) == 0 || strings.Contains(cmd.Use, "ID..."):
				all = v.candidates(cmd.Context(), group.Name(), cmd.Name())
			case len(args) == 1 && strings.HasSuffix(cmd.Use, "ID TIER"):
				for _, tier := range Tiers() {
					all = append(all, string(tier))
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// candidates lists the ids that a command can take, of keys only active ones. The shell shows
// nothing if they cannot be listed.
func (v *verbs) candidates(ctx context.Context, group, command string) (ids []string) {
	c, err := v.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	in := adminapi.Input{Query: adminapi.Query("limit", "1000")}
	switch {
	case group == "accounts":
		found, _, _ := adminapi.ListAccounts.Call(ctx, c, in)
		for _, a := range found.Accounts {
			ids = append(ids, a.ID)
		}
	case command == "approve" || command == "decline":
		found, _, _ := adminapi.ListKeyRequests.Call(ctx, c, in)
		for _, r := range found.Requests {
			ids = append(ids, r.ID)
		}
	case group == "keys":
		found, _, _ := adminapi.ListKeys.Call(ctx, c, in)
		for _, k := range found.Keys {
			if k.Status == "active" {
				ids = append(ids, k.ID)
			}
		}
	default:
		found, _, _ := adminapi.ListListings.Call(ctx, c, in)
		for _, l := range found.Listings {
			ids = append(ids, l.ID)
		}
	}
	return ids
}
