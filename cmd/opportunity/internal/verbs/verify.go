package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/services/history"
)

// Files in the data directory that hold the key for checkpoints, and the key that encrypts values
// in authquota's database.
const (
	SigningKeyFile    = "history-signing-key"
	EncryptionKeyFile = "encryption-key"
)

func (v *verbs) verify() *cobra.Command {
	var against []string
	c := &cobra.Command{
		Use:   "verify",
		Short: `Prove that nobody changed the events in the data directory of "opportunity up"`,
		Long: `Prove the verification events in the data directory of "opportunity up" against its log,
and against checkpoints that you saved elsewhere. It reads the files and changes nothing; "up" may
be running.

The keys are the one in the data directory and those in OPPORTUNITY_HISTORY_PUBLIC_KEYS. The exit
code is 1 if anything does not fit. For a history on Postgres, run "history verify" with the
settings of the service.`,
		Example: "  opportunity history verify\n" +
			"  opportunity history verify --data-dir /var/lib/opportunity --against checkpoint-2026-11-01.txt",
		RunE: func(cmd *cobra.Command, _ []string) error {
			database, cfg, err := v.historyConfig()
			if err != nil {
				return err
			}
			args := []string{"--output", v.output}
			for _, file := range against {
				args = append(args, "--against", file)
			}
			if v.output == "text" {
				fmt.Fprintf(cmd.OutOrStdout(), "Verifying %s with the key in %s\n", database, SigningKeyFile)
			}
			err = history.Verify(cmd.Context(), cfg, args, cmd.OutOrStdout())
			if errors.Is(err, history.ErrMismatch) {
				return &adminapi.Failure{Code: adminapi.CodeAltered, Message: err.Error()}
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&against, "against", nil,
		"a `FILE` with a checkpoint that was saved elsewhere; may be repeated")
	return c
}

func (v *verbs) prove() *cobra.Command {
	return &cobra.Command{
		Use:   "prove EVENT_ID",
		Short: "Write an event with the proof that the log has it, for readers without an account",
		Long: `Write an event of the data directory of "opportunity up" to standard output, in the proof
that the published checkpoint of the log covers it. "up" may be running. The reader verifies the
file with "opportunity-data verify" and needs no account.

The file has what the API showed of the event when it was recorded, not its author or its quotes.
For a history on Postgres, run "history prove" with the settings of the service.`,
		Example: "  opportunity history prove 0198f000-0000-7000-8000-000000000001 > event.tlog-proof",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, cfg, err := v.historyConfig()
			if err != nil {
				return err
			}
			return history.Prove(cmd.Context(), cfg, args[0], cmd.OutOrStdout())
		},
	}
}

// historyConfig returns the file and the settings of the history in the data directory, with its
// signing key.
func (v *verbs) historyConfig() (file string, cfg history.Config, err error) {
	file, lookup, err := v.database("history")
	if err != nil {
		return "", cfg, err
	}
	if lookup, err = withSecret(lookup, "OPPORTUNITY_HISTORY_SIGNING_KEY",
		filepath.Join(filepath.Dir(file), SigningKeyFile)); err != nil {
		return "", cfg, err
	}
	cfg, err = history.ProofConfig(lookup)
	return file, cfg, err
}

// withSecret returns settings with a secret from a file, unset if the file does not exist.
func withSecret(lookup func(string) (string, bool), variable, file string) (func(string) (string, bool), error) {
	secret, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return func(name string) (string, bool) {
		if name == variable {
			return strings.TrimSpace(string(secret)), len(secret) > 0
		}
		return lookup(name)
	}, nil
}

// database returns the database file of a service in the data directory, and settings that use it.
func (v *verbs) database(service string) (file string, lookup func(string) (string, bool), err error) {
	dir, err := filepath.Abs(v.dataDir)
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir, service+".db")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf(`no %s: %s does not exist. Use --data-dir with the directory of "opportunity up"`, service,
			file)
	}
	return file, func(name string) (string, bool) {
		if name == "OPPORTUNITY_DATABASE_URL" {
			return (&url.URL{Scheme: "sqlite", Path: file}).String(), true
		}
		return os.LookupEnv(name)
	}, nil
}
