package verbs

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/history"
)

func (v *verbs) recover() *cobra.Command {
	c := &cobra.Command{
		Use:   "recover",
		Short: `Decide what becomes of a database in the data directory that was restored from a backup`,
		Long: `Decide what becomes of a database in the data directory of "opportunity up" that was restored from an older backup.

catalog and history remember what they have seen of each other, authquota what it has seen of billing, and the journal of authquota has what
its database had. If a database is older than that, its service stops serving until you decide. "up" may be running: it continues within
seconds.

For databases on Postgres, run the verb "recover" of the service with its settings, such as "history recover".`,
	}
	c.AddCommand(v.recoverHistory(), v.recoverCatalog(), v.recoverAuthquota(), v.recoverBilling())
	return c
}

// recovery adds the flags for a decision to c, which calls do with it. accept and replay describe the flags; without replay, c has no flag
// --replay.
func recovery(c *cobra.Command, accept, replay string, do func(ctx context.Context, decision service.Recovery, out io.Writer) error) *cobra.Command {
	var accepted bool
	var file string
	c.Flags().BoolVar(&accepted, "accept", false, accept)
	c.Args = cobra.NoArgs
	if replay != "" {
		c.Flags().StringVar(&file, "replay", "", replay)
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case accepted != (file != ""):
		case replay == "":
			return flags.Usage("use --accept")
		default:
			return flags.Usage("use either --accept or --replay FILE")
		}
		return do(cmd.Context(), service.Recovery{Replay: file, Operator: operator.Actor()}, cmd.OutOrStdout())
	}
	return c
}

func (v *verbs) recoverHistory() *cobra.Command {
	c := &cobra.Command{
		Use:   "history --accept | --replay FILE",
		Short: "Continue with the events that the restored history has, or add those of an export",
		Long: `Continue with a history that was restored from an older backup.

--replay adds the events of an export that the history lacks; see "opportunity history export". If that is everything
that the catalog has seen, nothing was lost.

--accept gives up what is missing. The catalog copies all statuses again, and the log of the history goes on under another name: everyone with
a later checkpoint can see that events were lost.`,
		Example: "  opportunity recover history --replay history.jsonl\n  opportunity recover history --accept",
	}
	return recovery(c, "give up the missing events", "add the missing events from an export in `FILE`",
		func(ctx context.Context, decision service.Recovery, out io.Writer) error {
			_, cfg, err := v.historyConfig()
			if err != nil {
				return err
			}
			return history.Recover(ctx, cfg, decision, out)
		})
}

func (v *verbs) recoverCatalog() *cobra.Command {
	c := &cobra.Command{
		Use:   "catalog --accept",
		Short: "Continue with the listings that the restored catalog has",
		Long: `Continue with a catalog that was restored from an older backup. Records that the history knows as withdrawn since then stay withdrawn: the
command names them. Import a newer export of the listings afterwards, if you have one.`,
		Example: "  opportunity recover catalog --accept",
	}
	return recovery(c, "give up the missing changes", "", func(ctx context.Context, decision service.Recovery, out io.Writer) error {
		_, lookup, err := v.database("catalog")
		if err != nil {
			return err
		}
		cfg, err := catalog.RecoverConfig(lookup)
		if err != nil {
			return err
		}
		return catalog.Recover(ctx, cfg, decision, out)
	})
}

func (v *verbs) recoverAuthquota() *cobra.Command {
	c := &cobra.Command{
		Use:   "authquota --accept | --replay FILE",
		Short: "Continue with the accounts that the restored database has, or repeat the changes of its journal",
		Long: `Continue with accounts and keys that were restored from an older backup.

--replay repeats the changes that the database lacks: revoked and new keys, suspended and closed accounts, changed passwords and
authenticators, used codes, ended sessions. "up" writes the journal to authquota-journal.jsonl in the data directory.

--accept gives up what is missing. Keys that were revoked since the backup work again until you revoke them again.`,
		Example: "  opportunity recover authquota --replay .opportunity/authquota-journal.jsonl\n  opportunity recover authquota --accept",
	}
	return recovery(c, "give up the missing changes", "repeat the missing changes of the journal in `FILE`",
		func(ctx context.Context, decision service.Recovery, out io.Writer) error {
			database, lookup, err := v.database("authquota")
			if err == nil {
				lookup, err = withSecret(lookup, "OPPORTUNITY_ENCRYPTION_KEYS", filepath.Join(filepath.Dir(database), EncryptionKeyFile))
			}
			if err != nil {
				return err
			}
			cfg, err := authquota.RecoverConfig(lookup)
			if err != nil {
				return err
			}
			return authquota.Recover(ctx, cfg, decision, out)
		})
}

func (v *verbs) recoverBilling() *cobra.Command {
	c := &cobra.Command{
		Use:   "billing --accept",
		Short: "Read all subscriptions from the payment processor, and continue with those",
		Long: `Continue with a billing database that was restored from an older backup.

Every subscription is read from the payment processor, those of unknown customers included, and open checkout pages are closed. If the processor
fails, nothing is accepted: run the command again. The sandbox of "up" is in the same database: purchases since the backup are lost.`,
		Example: "  opportunity recover billing --accept",
	}
	return recovery(c, "read everything from the payment processor, and continue", "", func(ctx context.Context, decision service.Recovery, out io.Writer) error {
		_, lookup, err := v.database("billing")
		if err != nil {
			return err
		}
		cfg, err := billing.RecoverConfig(func(name string) (string, bool) {
			value, ok := lookup(name)
			if !ok && name == "OPPORTUNITY_BILLING_PROCESSOR" { // as in up
				return billing.Sandbox, true
			}
			return value, ok
		})
		if err != nil {
			return err
		}
		return billing.Recover(ctx, cfg, decision, out)
	})
}

func (v *verbs) exportHistory() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: `Write all events in the data directory of "opportunity up" to standard output`,
		Long: `Write all events in the data directory of "opportunity up" to standard output, as JSON Lines. "up" may be running.

Keep exports apart from the backups of the database: "opportunity recover history --replay" adds what a restored history lacks.
For a history on Postgres, run "history export" with the settings of the service.`,
		Example: "  opportunity history export > history.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, cfg, err := v.historyConfig()
			if err != nil {
				return err
			}
			return history.Export(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
}
