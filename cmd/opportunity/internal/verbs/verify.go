package verbs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/sdk/go/opportunity"
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
		Short: `Prove that the events in the data directory of "opportunity up" are unchanged`,
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
	secret, err := os.ReadFile(filepath.Join(filepath.Dir(file), SigningKeyFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", cfg, err
	}
	cfg, err = history.ProofConfig(with(lookup, "OPPORTUNITY_HISTORY_SIGNING_KEY", strings.TrimSpace(string(secret))))
	return file, cfg, err
}

// with returns settings in which a variable has a value, and is unset if that is empty.
func with(lookup settings, variable, value string) settings {
	return func(name string) (string, bool) {
		if name == variable {
			return value, value != ""
		}
		return lookup(name)
	}
}

// database returns the database file of a service in the data directory, and settings that use it.
func (v *verbs) database(service string) (file string, lookup settings, err error) {
	dir, err := filepath.Abs(v.dataDir)
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir, service+".db")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf(`no %s: %s does not exist. Use --data-dir with the directory of "opportunity up"`, service,
			file)
	}
	return file, with(os.LookupEnv, "OPPORTUNITY_DATABASE_URL", (&url.URL{Scheme: "sqlite", Path: file}).String()), nil
}

func (v *verbs) verifyEvent() *cobra.Command {
	var keys opportunity.ProofKeys
	var checkpoint string
	c := &cobra.Command{
		Use:   "verify-event FILE",
		Short: "Verify the proof of an event, without an account, a network or a database",
		Long: `Verify that an event is in the log of the history and has not changed since.

FILE is an event with its proof: the output of "opportunity history prove", or /records/ID/event of
an installation. "-" reads standard input. --key is the public key of the log; get it once from
.publicKeys of /.well-known/opportunity-history, and keep it. --witness is the key of a witness that
must have cosigned. With --checkpoint, the proof must also lead to a checkpoint that you have from
elsewhere, so that you see the same history as its source.

It proves that the log recorded the event by the time that the witnesses state, and that it has not
changed since. It does not prove that the event is true. The exit code is 0 if the event is proved,
1 if it is not, and 2 if nothing could be verified.`,
		Example: "  opportunity history verify-event event.tlog-proof --key \"$LOG_KEY\"\n" +
			"  opportunity history verify-event event.tlog-proof --key \"$LOG_KEY\" --witness \"$WITNESS_KEY\" --checkpoint " +
			"saved.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			proof, err := provedBy(cmd, args[0], checkpoint, keys)
			failed := new(opportunity.ProofError)
			switch {
			case errors.As(err, &failed) && failed.Reason != opportunity.ReasonMalformedKey:
				return &adminapi.Failure{Code: adminapi.CodeAltered, Message: failed.Error()}
			case err != nil: // nothing was verified
				return flags.Usage("%w", err)
			}
			if v.output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(proof)
			}
			printProof(Printable(cmd.OutOrStdout()), proof)
			return nil
		},
	}
	c.Flags().StringArrayVar(&keys.Log, "key", nil, "a public `KEY` of the log; may be repeated")
	c.Flags().StringArrayVar(&keys.Witnesses, "witness", nil,
		"the `KEY` of a witness that must have cosigned; may be repeated")
	c.Flags().StringVar(&checkpoint, "checkpoint", "",
		"a `FILE` with a checkpoint of the log from elsewhere, to which the proof must lead")
	_ = c.MarkFlagRequired("key")
	return c
}

func provedBy(cmd *cobra.Command, name, checkpoint string, keys opportunity.ProofKeys) (proof opportunity.Proof,
	err error) {
	text, err := readFile(cmd, name)
	if err != nil {
		return proof, err
	}
	if proof, err = opportunity.VerifyEvent(string(text), keys); err != nil || checkpoint == "" {
		return proof, err
	}
	return proof, leadsTo(cmd, proof, checkpoint, keys)
}

// leadsTo returns an error unless a proof leads to the checkpoint in a file.
func leadsTo(cmd *cobra.Command, proof opportunity.Proof, checkpoint string, keys opportunity.ProofKeys) error {
	text, err := readFile(cmd, checkpoint)
	if err != nil {
		return err
	}
	size, root, err := opportunity.VerifyCheckpoint(string(text), keys)
	switch {
	case err != nil:
		return err
	case size != proof.Size:
		return &opportunity.ProofError{Reason: "other_checkpoint", Message: fmt.Sprintf(
			"the proof leads to a checkpoint of %d events and %s has %d: get the proof with ?size=%d", proof.Size, checkpoint,
			size, size)}
	case !bytes.Equal(root, proof.Root):
		return &opportunity.ProofError{Reason: "other_history", Message: fmt.Sprintf(
			"the log has signed two histories of %d events: keep this file and %s, which prove it", size, checkpoint)}
	}
	return nil
}

func printProof(out io.Writer, p opportunity.Proof) {
	fmt.Fprintf(out, "proved: the event is number %d of the %d events that %s has signed\n", p.Index+1, p.Size, p.Origin)
	e := p.Event
	fmt.Fprintf(out, "event     %s of %s: %s\n", e.CheckType, e.Slug, e.Outcome)
	fmt.Fprintf(out, "checked   %s\n", e.CheckedAt.Format(time.RFC3339Nano))
	if e.Note != "" {
		fmt.Fprintf(out, "note      %s\n", strings.ReplaceAll(e.Note, "\n", "\n          "))
	}
	for _, url := range e.SourceURLs {
		fmt.Fprintf(out, "source    %s\n", url)
	}
	fmt.Fprintf(out, "recorded  %s, says the log\n", p.RecordedAt.Format(time.RFC3339Nano))
	for _, seen := range p.Witnesses {
		fmt.Fprintf(out, "seen      %s, by %s\n", seen.At.Format(time.RFC3339), seen.Name)
	}
	if len(p.Witnesses) == 0 {
		fmt.Fprintln(out, "seen      by no witness that you named: the log alone vouches for the time, and can show others "+
			"another history")
	}
}
