package witness

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/datadir"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/cosignature"
)

const keyFile = "witness-key"

// Command returns the command `opportunity witness`.
func Command() *cobra.Command {
	var listen, dir, name string
	var logs []string
	c := &cobra.Command{
		Use:   "witness",
		Short: "Cosign the checkpoints of transparency logs that other people run",
		Long: `Serve a witness of transparency logs (C2SP tlog-witness). It cosigns a checkpoint of a log only if that extends everything that it has
seen of the log, so readers who require its cosignature all see one history. Run it for a log that is not your own.

The data directory has the key of the witness, which the first start generates, and the newest checkpoint of each log. Never restore
an older copy of it: the witness would then cosign a history that contradicts what it has cosigned. --name becomes a part of each
cosignature and of the key; never change it. The first line of the output is the verifier key, which operators of logs and readers need.

The witness has no TLS: put a proxy in front.`,
		Example: `  opportunity witness --name witness.example.org --log "api.example.com/opportunity-history+8fadac5c+AaMZ..."`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
			data, err := datadir.Open(dir)
			if err != nil {
				return err
			}
			defer data.Unlock()
			signer, err := newSigner(data, name)
			if err != nil {
				return err
			}
			w, err := New(signer, logs, data, log)
			if err != nil {
				return flags.Usage("%w", err)
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("cannot listen on %s: %w", listen, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\nlistening on http://%s\n", signer.PublicKey(), listener.Addr())
			return serve(cmd.Context(), listener, w)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8083", "address to listen on; port 0 picks a free port")
	c.Flags().StringVar(&dir, "data-dir", ".witness", "directory with the key and the state")
	c.Flags().StringVar(&name, "name", "", "`NAME` of the witness: a host, or a host and a path")
	c.Flags().StringArrayVar(&logs, "log", nil, "public `KEY` of a log; may be repeated")
	_ = c.MarkFlagRequired("name")
	_ = c.MarkFlagRequired("log")
	return c
}

// newSigner returns the signer with the key in the directory.
func newSigner(data *datadir.Dir, name string) (s cosignature.Signer, err error) {
	secret, err := data.Secret(keyFile)
	if err != nil {
		return s, err
	}
	seed, err := hex.DecodeString(secret)
	if err != nil || len(seed) != ed25519.SeedSize {
		return s, fmt.Errorf("%s must be 32 bytes in hexadecimal", data.File(keyFile))
	}
	if s, err = cosignature.NewSigner(name, ed25519.NewKeyFromSeed(seed), time.Now); err != nil {
		return s, flags.Usage("invalid --name %q: use a host, or a host and a path, without spaces and plus signs", name)
	}
	return s, nil
}

// serve serves until ctx ends, and then finishes the requests that run.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ending); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
