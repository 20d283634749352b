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
	"opportunity.internal/services/history/internal/store"
)

// Export writes all events to out, as Recover replays them. It may run while the history is served.
func Export(ctx context.Context, cfg Config, out io.Writer) error {
	cfg.Database.Access = database.ReadOnly
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		buffered := bufio.NewWriterSize(out, 64<<10)
		err := store.New(r.DB).Audit(ctx, func(source audit.Source) error { return audit.Export(buffered, source) })
		return errors.Join(err, buffered.Flush())
	})
}

// Recover ends the state of a database that was set back: it accepts the loss, or replays the missing events of an export. A
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
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		events, err := audit.Replay(ctx, bufio.NewReader(in), store.New(r.DB))
		fmt.Fprintf(out, "replayed: events %d\n", events)
		return err
	})
}
