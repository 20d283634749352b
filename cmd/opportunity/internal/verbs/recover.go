package verbs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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
	services := map[string]func(context.Context, settings, service.Recovery, io.Writer) error{
		"authquota": v.withRedis, "billing": recovery(inSandbox, billing.Recover),
		"catalog": recovery(catalog.RecoverConfig, catalog.Recover),
		"history": recovery(history.ProofConfig, history.Recover),
	}
	names := slices.Sorted(maps.Keys(services))
	var accept, current bool
	c := &cobra.Command{
		Use:       "recover SERVICE --accept | --current",
		ValidArgs: names,
		Short:     `Decide what becomes of a database in the data directory that was restored from a backup`,
		Long: `Decide what becomes of a database in the data directory of "opportunity up" that was
restored from an older backup: that of history, catalog, authquota or billing.

The services remember what they have seen of each other, and the file redis.json what was in each
database. If a database is older than that, its service stops serving until you decide. "up" may be
running: it continues within seconds.

--current says that nothing is missing, and that what others remember is wrong. --accept gives up
what is missing:

  history    The catalog copies all statuses again, and the log continues under another name:
             everyone with a later checkpoint can see that events were lost.
  catalog    Records that the history knows as withdrawn since then stay withdrawn: the log of the
             catalog names them. Import a newer export of the listings afterwards, if you have one.
  authquota  Accounts that have changed since the backup lose their keys, sessions, passwords and
             second factors: their people sign in by resetting the password. Suspended accounts
             stay suspended, and closed ones closed.
  billing    Every subscription is read from the payment processor, those of unknown customers
             included, and open checkout pages are closed. If the processor fails, nothing is
             accepted: run the command again. The sandbox of "up" is in the same database:
             purchases since the backup are lost.

For databases on Postgres, run the verb "recover" of the service with its settings, such as "history
recover".`,
		Example: "  opportunity recover history --accept",
		Args: func(_ *cobra.Command, args []string) error {
			if services[args[0]] == nil {
				return fmt.Errorf("unknown service %q: use %s", args[0], flags.OneOf(names...))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if accept == current {
				return flags.Usage("use either --accept or --current")
			}
			decision := service.Recovery{Current: current, Operator: adminapi.Actor()}
			if decision.Operator == "" {
				return adminapi.ErrNoActor
			}
			_, lookup, err := v.database(args[0])
			if err != nil {
				return err
			}
			said := new(strings.Builder)
			err = decision.Run(said, func() error { return services[args[0]](cmd.Context(), lookup, decision, said) })
			if said.Len() > 0 {
				raw, _ := json.Marshal(map[string]string{"message": strings.TrimSpace(said.String())})
				v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { fmt.Fprint(out, said) })
			}
			return err
		},
	}
	c.Flags().BoolVar(&accept, "accept", false, "give up what is missing")
	c.Flags().BoolVar(&current, "current", false, "nothing is missing")
	return c
}

// settings returns the value of a setting, and whether it is set.
type settings = func(name string) (string, bool)

// recovery returns the function of a service that carries out a decision with the settings that it
// loads.
func recovery[C any](load func(settings) (C, error),
	run func(context.Context, C, service.Recovery, io.Writer) error,
) func(context.Context, settings, service.Recovery, io.Writer) error {
	return func(ctx context.Context, lookup settings, decision service.Recovery, out io.Writer) error {
		cfg, err := load(lookup)
		if err != nil {
			return err
		}
		return run(ctx, cfg, decision, out)
	}
}

func (v *verbs) withRedis(ctx context.Context, lookup settings, decision service.Recovery, out io.Writer) error {
	redis, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer redis.Close()
	if err := redis.Load(filepath.Join(v.dataDir, RedisFile)); err != nil {
		return err
	}
	lookup = with(lookup, "OPPORTUNITY_REDIS_URL", redis.URL())
	return recovery(authquota.RecoverConfig, authquota.Recover)(ctx, lookup, decision, out)
}

// inSandbox loads the settings of billing, whose processor is the sandbox unless another one is
// set, as in up.
func inSandbox(lookup settings) (billing.Config, error) {
	const name = "OPPORTUNITY_BILLING_PROCESSOR"
	if _, set := lookup(name); !set {
		lookup = with(lookup, name, billing.Sandbox)
	}
	return billing.RecoverConfig(lookup)
}
