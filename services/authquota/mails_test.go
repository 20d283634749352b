package authquota_test

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
)

// post writes a mail to the outbox, due at a time.
func (s *stores) post(t *testing.T, at time.Time, m mail.Message) {
	t.Helper()
	db := testkit.Open(t, s.Database, func() time.Time { return at })
	require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error { return tx.Post(m) }))
}

// waiting returns the number of mails in the outbox.
func (s *stores) waiting(t *testing.T) int {
	t.Helper()
	n, _, err := s.open(t).PendingMails(t.Context())
	require.NoError(t, err)
	return n
}

// received is a parsed mail.
type received struct {
	header        netmail.Header
	subject       string
	plain, html   string
	name, raw, to string
}

func readMail(t *testing.T, raw string) received {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	require.NoError(t, err)
	r := received{header: m.Header, raw: raw}
	r.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	require.NoError(t, err)
	to, err := m.Header.AddressList("To")
	require.NoError(t, err)
	require.Len(t, to, 1)
	r.to = to[0].Address
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, want := range []struct {
		kind string
		into *string
	}{{"text/plain", &r.plain}, {"text/html", &r.html}} { // clients prefer the last part
		part, err := parts.NextRawPart()
		require.NoError(t, err)
		kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		require.NoError(t, err)
		require.Equal(t, want.kind, kind)
		require.Equal(t, "utf-8", strings.ToLower(params["charset"]))
		require.Equal(t, "quoted-printable", part.Header.Get("Content-Transfer-Encoding"))
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		require.NoError(t, err)
		*want.into = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	_, err = parts.NextPart()
	require.ErrorIs(t, err, io.EOF)
	return r
}

// mails returns the mails written to files, oldest first, without those that confirm an address:
// signing up sends them.
func (s *stores) mails(t *testing.T) (mails []received) {
	t.Helper()
	for _, m := range s.allMails(t) {
		if !strings.Contains(m.name, "-confirm-address-") {
			mails = append(mails, m)
		}
	}
	return mails
}

func (s *stores) allMails(t *testing.T) (all []received) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.mailbox, "*.eml"))
	require.NoError(t, err)
	for _, name := range names {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		r := readMail(t, string(raw))
		r.name = filepath.Base(name)
		text, err := os.ReadFile(strings.TrimSuffix(name, ".eml") + ".txt")
		require.NoError(t, err)
		require.Contains(t, string(text), "To: "+r.to+"\nSubject: ")
		all = append(all, r)
	}
	return all
}

func TestMailsBecomeFiles(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 250_000_000, time.UTC)
		svc, _ := s.startAt(t, now.Add(time.Minute)) // the courier gives old mails up
		link := "https://api.example/account/confirm?token=a-secret-of-onemail&more=1"
		s.post(t, now.Add(time.Second), mail.Message{
			To: "ada@example.org", Template: "key-request-approved", Data: map[string]string{"use_case": "journal d’été\r\nBcc: bob@example.org", "link": link},
		})
		s.post(t, now, mail.Message{To: "ada@example.org", Template: "confirm-address", Data: map[string]string{"link": link}})
		storetest.Eventually(t, "written", func() bool { return len(s.allMails(t)) == 2 && s.waiting(t) == 0 })

		first, second := s.allMails(t)[0], s.allMails(t)[1]
		require.Regexp(t, `^20261120T100000\.250000Z-confirm-address-[0-9a-f]{32}\.eml$`, first.name)
		require.Equal(t, "Confirm your email address", first.subject)
		require.Equal(t, "ada@example.org", first.to)
		require.Equal(t, `"Opportunity Data API" <no-reply@api.example>`, first.header.Get("From"))
		require.Equal(t, "Fri, 20 Nov 2026 10:00:00 +0000", first.header.Get("Date"))
		require.Equal(t, "<mail_"+first.name[len("20261120T100000.250000Z-confirm-address-"):len(first.name)-len(".eml")]+"@api.example>", first.header.Get("Message-ID"))
		require.Equal(t, "auto-generated", first.header.Get("Auto-Submitted"))
		require.Contains(t, first.plain, "\n"+link+"\n")
		require.Contains(t, first.html, `href="`+strings.ReplaceAll(link, "&", "&amp;")+`"`)
		require.Contains(t, second.plain, "journal d’été  Bcc: bob@example.org")
		require.Empty(t, second.header.Get("Bcc"))

		file, err := os.Stat(filepath.Join(s.mailbox, first.name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), file.Mode().Perm())
		require.Contains(t, svc.Log.String(), "mail written to a file, not sent")
		for _, private := range []string{"a-secret-of-onemail", "ada@", "d’été"} {
			require.NotContains(t, svc.Log.String(), private)
		}
		storetest.Eventually(t, "counted", func() bool {
			metrics := svc.Metrics()
			return strings.Contains(metrics, "authquota_mails_pending 0") &&
				strings.Contains(metrics, `authquota_mails_sent_total{template="confirm-address"} 1`)
		})
	})
}
