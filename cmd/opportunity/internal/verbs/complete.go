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
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !strings.Contains(cmd.Use, "ID...") {
				return tierNames(cmd, args), cobra.ShellCompDirectiveNoFileComp
			}
			client, err := v.client()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			return candidates(ctx, client, group.Name(), cmd.Name()), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// tierNames completes the second argument of "accounts grant".
func tierNames(cmd *cobra.Command, args []string) (names []string) {
	for _, t := range tiers() {
		if len(args) == 1 && strings.HasSuffix(cmd.Use, "ID TIER") {
			names = append(names, string(t))
		}
	}
	return names
}

// candidates lists the ids that a command takes. The shell shows nothing if they cannot be listed.
func candidates(ctx context.Context, c adminapi.Client, group, command string) (ids []string) {
	page := adminapi.Page{Limit: 1000}
	switch {
	case group == "accounts":
		list, _, _ := c.AccountList(ctx, "", page)
		for _, a := range list.Accounts {
			ids = append(ids, a.ID)
		}
	case command == "approve" || command == "decline":
		list, _, _ := c.KeyRequests(ctx, false, page)
		for _, r := range list.Requests {
			ids = append(ids, r.ID)
		}
	case group == "keys":
		list, _, _ := c.KeyList(ctx, "", page)
		for _, k := range list.Keys {
			if k.Status == "active" {
				ids = append(ids, k.ID)
			}
		}
	default:
		list, _, _ := c.ListingList(ctx, page)
		for _, l := range list.Listings {
			ids = append(ids, l.ID)
		}
	}
	return ids
}
