package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/store"
)

// Export writes all events and checkpoints to out, as Recover replays them. It may run while the history is served.
func Export(ctx context.Context, cfg Config, out io.Writer) error {
	cfg.Database.Access = database.ReadOnly
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		buffered := bufio.NewWriterSize(out, 64<<10)
		err := store.New(r.DB).Audit(ctx, func(source audit.Source) error { return audit.Export(buffered, source) })
		return errors.Join(err, buffered.Flush())
	})
}

// Recover ends the state of a database that was set back: it accepts the loss, or replays the missing events and checkpoints of an export. A
// service that runs on the database then becomes ready.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	if decision.Replay == "" {
		return definition.Accept(ctx, cfg, decision.Operator, out)
	}
	in, err := os.Open(decision.Replay)
	if err != nil {
		return err
	}
	defer in.Close()
	keys, err := cfg.Proof.Keys()
	if err != nil {
		return err
	}
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		s := store.New(r.DB)
		var stored []checkpoint.Stored
		if err := s.Audit(ctx, func(source audit.Source) (err error) { _, stored, err = source.Totals(); return err }); err != nil {
			return err
		}
		report, err := audit.Replay(ctx, bufio.NewReader(in), replayed{s, checkpoint.Notary{Store: s, Keys: keys}}, stored)
		fmt.Fprintf(out, "replayed: events %d, checkpoints %d\n", report.Events, report.Checkpoints)
		return err
	})
}

// replayed is an audit.Target.
type replayed struct {
	*store.Store
	checkpoint.Notary
}
