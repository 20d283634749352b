package verbs

import (
	"context"
	"encoding/json"
	"path"
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
				all = v.candidates(cmd.Context(), listOf(group.Name(), cmd.Name()))
			case len(args) == 1 && strings.HasSuffix(cmd.Use, "ID TIER"):
				for _, tier := range Tiers() {
					all = append(all, string(tier))
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// listOf returns the path of the list of what a command takes.
func listOf(group, command string) string {
	switch {
	case group == "accounts":
		return "/accounts"
	case command == "approve" || command == "decline":
		return "/keys/requests"
	case group == "keys":
		return "/keys"
	}
	return "/listings"
}

// candidates lists ids, of keys only active ones. The shell shows nothing if they cannot be listed.
func (v *verbs) candidates(ctx context.Context, list string) (ids []string) {
	client, err := v.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, _, _ := adminapi.Get[map[string]json.RawMessage](ctx, client, list, "limit", "1000")
	var entries []struct{ ID, Status string }
	_ = json.Unmarshal(found[path.Base(list)], &entries)
	for _, e := range entries {
		if list != "/keys" || e.Status == "active" {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
