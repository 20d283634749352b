package verbs

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

func (v *verbs) audit() *cobra.Command {
	var account, action, actor, since string
	var limit, before int
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read the audit log of accounts and keys, newest first",
		Long: `Read the audit log of accounts and keys, newest first. The database rejects changes to
entries. Reading is not recorded.

--account selects what the account's owner did, and what was done to the account, its keys and its
requests.`,
		Example: `  opportunity audit --since 24h
  opportunity audit --account acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --action person.sign_in
  opportunity audit --actor ada --since 2026-11-01 --limit 1000 --output json`,
		PreRunE: func(*cobra.Command, []string) (err error) {
			since, err = parseSince(since, time.Now())
			return err
		},
		RunE: show(v, adminapi.ListAudit, func([]string) adminapi.Input {
			return adminapi.Input{Query: adminapi.Query("account", account, "action", action, "actor", actor, "since", since,
				"limit", strconv.Itoa(limit), "before", number(int64(before)))}
		}, func(out io.Writer, found api.AuditList) {
			showAudit(out, found.Entries)
			printNextPage(out, "before", number(found.Next))
		}),
	}
	f := c.Flags()
	f.StringVar(&account, "account", "", "only entries about this account")
	f.StringVar(&action, "action", "", "only actions with this prefix, such as key. or person.sign_in")
	f.StringVar(&actor, "actor", "", "only entries by this operator, or by the owner of this account")
	f.StringVar(&since, "since", "", "only entries since then: a duration such as 7d or 90m, a date, or a time (UTC)")
	flags.Number(f, &limit, "limit", 50, fmt.Sprintf("maximum number of entries, up to %d", api.MaxOperatorPageSize))
	flags.Number(f, &before, "before", 0, "only entries older than the one with this id")
	return c
}

// parseSince parses a duration before now, a UTC day, which means its start, or an RFC 3339 time.
// It returns RFC 3339; empty stays empty.
func parseSince(s string, now time.Time) (string, error) {
	if s == "" {
		return "", nil
	}
	if d, err := api.ParseDuration(s); err == nil {
		return now.Add(-d).UTC().Format(time.RFC3339Nano), nil
	}
	if t, err := api.CheckDate(s).Time(); err == nil {
		return t.Format(time.RFC3339Nano), nil
	}
	return "", fmt.Errorf("invalid --since %q: use a duration such as 7d or 90m, a date such as 2026-11-20, or a time "+
		"such as 2026-11-20T09:30:00Z", s)
}

func showAudit(out io.Writer, entries []api.AuditEntry) {
	table(out, "AT\tACTOR\tACTION\tSUBJECT\tDETAIL", func(row func(...any)) {
		for _, e := range entries {
			row(formatTime(e.At), e.Actor, e.Action, e.Subject, string(e.Detail))
		}
	})
}
