package verbs

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/history"
)

// RedisFile is the file in the data directory with what the embedded Redis remembers of the
// databases.
const RedisFile = "redis.json"

func (v *verbs) recover() *cobra.Command {
	c := &cobra.Command{
		Use:   "recover",
		Short: `Decide what becomes of a database in the data directory that was restored from a backup`,
		Long: `Decide what becomes of a database in the data directory of "opportunity up" that was
restored from an older backup.

The services remember what they have seen of each other, and the file redis.json what was in each
database. If a database is older than that, its service stops serving until you decide. "up" may be
running: it continues within seconds.

For databases on Postgres, run the verb "recover" of the service with its settings, such as "history
recover".`,
	}
	c.AddCommand(
		v.recovery("history", "Continue with the events that the restored history has", `Continue with a
history that was restored from an older backup.

--accept gives up what is missing. The catalog copies all statuses again, and the log continues
under another name: everyone with a later checkpoint can see that events were lost.`, v.recoverHistory),
		v.recovery("catalog", "Continue with the listings that the restored catalog has", `Continue with a
catalog that was restored from an older backup.

--accept gives up what is missing. Records that the history knows as withdrawn since then stay
withdrawn: the log of the catalog names them. Import a newer export of the listings afterwards, if
you have one.`, v.recoverCatalog),
		v.recovery("authquota", "Continue with the accounts that the restored database has", `Continue
with accounts and keys that were restored from an older backup.

--accept gives up what is missing. Accounts that have changed since the backup lose their keys,
sessions, passwords and second factors: their people sign in by resetting the password. Suspended
accounts stay suspended, and closed ones closed.`, v.recoverAuthquota),
		v.recovery("billing", "Read all subscriptions from the payment processor, and continue with those", `Continue
with a billing database that was restored from an older backup.

--accept reads every subscription from the payment processor, those of unknown customers included,
and closes open checkout pages. If the processor fails, nothing is accepted: run the command again.
The sandbox of "up" is in the same database: purchases since the backup are lost.`, v.recoverBilling),
	)
	return c
}

func (v *verbs) recovery(name, short, long string,
	do func(ctx context.Context, decision service.Recovery, out io.Writer) error) *cobra.Command {
	var accept, current bool
	c := &cobra.Command{
		Use: name + " --accept | --current", Short: short, Args: cobra.NoArgs, Example: "  opportunity recover " + name +
			" --accept",
		Long: long + `

--current says that nothing is missing, and that what others remember is wrong.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if accept == current {
				return flags.Usage("use either --accept or --current")
			}
			decision := service.Recovery{Current: current, Operator: adminapi.Actor()}
			if decision.Operator == "" {
				return adminapi.ErrNoActor
			}
			out := cmd.OutOrStdout()
			return decision.Run(out, func() error { return do(cmd.Context(), decision, out) })
		},
	}
	c.Flags().BoolVar(&accept, "accept", false, "give up what is missing")
	c.Flags().BoolVar(&current, "current", false, "nothing is missing")
	return c
}

func (v *verbs) recoverHistory(ctx context.Context, decision service.Recovery, out io.Writer) error {
	_, cfg, err := v.historyConfig()
	if err != nil {
		return err
	}
	return history.Recover(ctx, cfg, decision, out)
}

func (v *verbs) recoverCatalog(ctx context.Context, decision service.Recovery, out io.Writer) error {
	_, lookup, err := v.database("catalog")
	if err != nil {
		return err
	}
	cfg, err := catalog.RecoverConfig(lookup)
	if err != nil {
		return err
	}
	return catalog.Recover(ctx, cfg, decision, out)
}

func (v *verbs) recoverAuthquota(ctx context.Context, decision service.Recovery, out io.Writer) error {
	database, lookup, err := v.database("authquota")
	if err != nil {
		return err
	}
	redis, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer redis.Close()
	if err := redis.Load(filepath.Join(filepath.Dir(database), RedisFile)); err != nil {
		return err
	}
	cfg, err := authquota.RecoverConfig(with(lookup, "OPPORTUNITY_REDIS_URL", redis.URL()))
	if err != nil {
		return err
	}
	return authquota.Recover(ctx, cfg, decision, out)
}

func (v *verbs) recoverBilling(ctx context.Context, decision service.Recovery, out io.Writer) error {
	_, lookup, err := v.database("billing")
	if err != nil {
		return err
	}
	if _, set := lookup("OPPORTUNITY_BILLING_PROCESSOR"); !set { // as in up
		lookup = with(lookup, "OPPORTUNITY_BILLING_PROCESSOR", billing.Sandbox)
	}
	cfg, err := billing.RecoverConfig(lookup)
	if err != nil {
		return err
	}
	return billing.Recover(ctx, cfg, decision, out)
}
