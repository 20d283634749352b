package verbs

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

func (v *verbs) announce() *cobra.Command {
	var want api.AnnouncementRequest
	var file string
	var yes bool
	c := &cobra.Command{
		Use:   "announce ID --kind KIND --subject SUBJECT --text FILE",
		Short: "Send a mail about new terms or an API change to the people of all accounts",
		Long: `Send a mail about new terms or an API change to the people of all accounts.

The kind "terms" goes to everyone. The kind "api-change" goes to everyone who has not switched off
notices of API changes. The text is plain, with empty lines between paragraphs; the mail adds the
links to the changelog or the terms, and to the notices page.

The command prints the mail and the number of recipients, and asks for confirmation. In scripts, add
--yes. The ID is yours to choose: repeating a command sends no mail twice and prints how far the
announcement is sent.`,
		Example: `  opportunity announce terms-2027-01 --kind terms --subject "New terms from 1 February 2027" --text terms.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readFile(cmd, file)
			if err != nil {
				return err
			}
			if len(text) == 0 {
				return errors.New("the text is empty: write the paragraphs of the mail into the file")
			}
			want.ID, want.Text = args[0], string(text)
			if !yes {
				if err := v.confirmAnnouncement(cmd, want); err != nil {
					return err
				}
			}
			found, raw, err := call(cmd, v, adminapi.Announce, adminapi.Input{Body: want})
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
				fmt.Fprintf(out, "announced %s at %s: %d of %d mails queued; repeat the command to see its progress\n",
					found.ID, formatOptionalTime(found.CreatedAt), found.Posted, found.Recipients)
			})
			return nil
		},
	}
	f := c.Flags()
	flags.Choice(f, &want.Kind, "kind", "", "occasion", "terms", "api-change")
	f.StringVar(&want.Subject, "subject", "", "subject; the mail puts the occasion in front of it")
	f.StringVar(&file, "text", "", "file with the text, or - for standard input")
	f.BoolVar(&yes, "yes", false, "skip the confirmation")
	for _, name := range []string{"kind", "subject", "text"} {
		_ = c.MarkFlagRequired(name) // it is defined above
	}
	return c
}

// confirmAnnouncement shows an announcement that does not exist yet and asks for confirmation.
func (v *verbs) confirmAnnouncement(cmd *cobra.Command, want api.AnnouncementRequest) error {
	want.DryRun = true
	found, _, err := call(cmd, v, adminapi.Announce, adminapi.Input{Body: want})
	if err != nil || found.CreatedAt != nil {
		return err
	}
	question := fmt.Sprintf("Subject: %s\n\n%s\nRecipients: %d.", found.Subject, found.Text, found.Recipients)
	return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), question)
}
