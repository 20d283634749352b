package verbs

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/history"
)

func (v *verbs) recover() *cobra.Command {
	c := &cobra.Command{
		Use:   "recover",
		Short: `Decide what becomes of a database in the data directory that was restored from a backup`,
		Long: `Decide what becomes of a database in the data directory of "opportunity up" that was restored from an older backup.

catalog and history remember what they have seen of each other, and the journal of authquota has what its database had. If a database is
older than that, its service stops serving until you decide. "up" may be running: it continues within seconds.

For databases on Postgres, run the verb "recover" of the service with its settings, such as "history recover".`,
	}
	c.AddCommand(v.recoverHistory(), v.recoverCatalog(), v.recoverAuthquota())
	return c
}

func (v *verbs) recoverHistory() *cobra.Command {
	var accept bool
	var file string
	c := &cobra.Command{
		Use:   "history --accept | --replay FILE",
		Short: "Continue with the events that the restored history has, or add those of an export",
		Long: `Continue with a history that was restored from an older backup.

--replay adds the events and checkpoints of an export that the history lacks; see "opportunity history export". If that is everything
that the catalog has seen, nothing was lost.

--accept gives up what is missing. The catalog copies all statuses again, and the next checkpoint says that a generation of the history
began: everyone with a later checkpoint can see that events were lost.`,
		Example: "  opportunity recover history --replay history.jsonl\n  opportunity recover history --accept",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if accept == (file != "") {
				return flags.Usage("use either --accept or --replay FILE")
			}
			_, cfg, err := v.historyConfig()
			if err != nil {
				return err
			}
			args := []string{"--accept", "--operator", operator.Actor()}
			if !accept {
				args = []string{"--replay", file}
			}
			return history.Recover(cmd.Context(), cfg, args, cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&accept, "accept", false, "give up the missing events")
	c.Flags().StringVar(&file, "replay", "", "add the missing events from an export in `FILE`")
	return c
}

func (v *verbs) recoverCatalog() *cobra.Command {
	var accept bool
	c := &cobra.Command{
		Use:     "catalog --accept",
		Short:   "Continue with the listings that the restored catalog has",
		Long:    `Continue with a catalog that was restored from an older backup. Import a newer export of the listings afterwards, if you have one.`,
		Example: "  opportunity recover catalog --accept",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !accept {
				return flags.Usage("use --accept")
			}
			_, lookup, err := v.database("catalog")
			if err != nil {
				return err
			}
			cfg, err := catalog.RecoverConfig(lookup)
			if err != nil {
				return err
			}
			return catalog.Recover(cmd.Context(), cfg, []string{"--accept", "--operator", operator.Actor()}, cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&accept, "accept", false, "give up the missing changes")
	return c
}

func (v *verbs) recoverAuthquota() *cobra.Command {
	var accept bool
	var file string
	c := &cobra.Command{
		Use:   "authquota --accept | --replay FILE",
		Short: "Continue with the accounts that the restored database has, or repeat the changes of its journal",
		Long: `Continue with accounts and keys that were restored from an older backup.

--replay repeats the changes that the database lacks: revoked and new keys, suspended and closed accounts, changed passwords and
authenticators, used codes, ended sessions. "up" writes the journal to authquota-journal.jsonl in the data directory.

--accept gives up what is missing. Keys that were revoked since the backup work again until you revoke them again.`,
		Example: "  opportunity recover authquota --replay .opportunity/authquota-journal.jsonl\n  opportunity recover authquota --accept",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if accept == (file != "") {
				return flags.Usage("use either --accept or --replay FILE")
			}
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
			args := []string{"--accept", "--operator", operator.Actor()}
			if !accept {
				args = []string{"--replay", file}
			}
			return authquota.Recover(cmd.Context(), cfg, args, cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&accept, "accept", false, "give up the missing changes")
	c.Flags().StringVar(&file, "replay", "", "repeat the missing changes of the journal in `FILE`")
	return c
}

func (v *verbs) exportHistory() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: `Write all events and checkpoints in the data directory of "opportunity up" to standard output`,
		Long: `Write all events and checkpoints in the data directory of "opportunity up" to standard output, as JSON Lines. "up" may be running.

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
