package authquota_test

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
)

// by makes the service send through an SMTP server, on the test's clock.
func by(m *testkit.SMTPServer, url string, c *servicetest.Clock) func(*authquota.Config) {
	return func(cfg *authquota.Config) {
		cfg.Now = c.Now
		cfg.Mail = courier.Config{
			URL: strings.Replace(url, "HOST", m.Address, 1), From: "Opportunity Data API <no-reply@api.example>", Roots: m.Roots,
		}
	}
}

var (
	private = "https://api.example/account/confirm?token=known-to-one-reader"
	welcome = mail.Message{
		To: "ada.lovelace@example.org", Template: "confirm-address", Data: map[string]string{"link": private},
	}
)

// If a sender stops between sending and deleting, the mail is sent again as the same message; none
// is lost.
func TestAMailWhoseSenderDiedIsSentAgain(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		server, now := testkit.StartSMTP(t, testkit.SMTPKind{NoLogin: true}), servicetest.NewClock(begin)
		first := s.start(t, by(server, "smtp://HOST", now))
		release := server.Hold()
		defer release()
		s.post(t, now.Now(), welcome)
		storetest.Eventually(t, "arrived, not confirmed", func() bool { return len(server.Deliveries()) == 1 })
		first.stop() // waits briefly for the reply
		release()
		require.Equal(t, 1, s.waiting(t))

		s.start(t, by(server, "smtp://HOST", now))
		require.Len(t, server.Deliveries(), 1, "nobody takes it while the claim of the other may hold")
		now.Advance(5 * time.Minute)
		storetest.Eventually(t, "sent again", func() bool { return s.waiting(t) == 0 })
		sent := server.Deliveries()
		require.Len(t, sent, 2)
		require.Equal(t, readMail(t, sent[0].Raw).header.Get("Message-ID"), readMail(t, sent[1].Raw).header.Get("Message-ID"))
	})
}

// The service stays ready, because people who need neither mails nor authenticators are served.
func TestReadinessReportsMailServerAndEncryptionKeys(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		s.post(t, begin, welcome)
		svc := s.start(t, func(c *authquota.Config) {
			c.Now = servicetest.NewClock(begin).Now
			c.Encryption, c.Mail.URL = []string{strings.Repeat("a1", 32)}, "smtp://127.0.0.1:1"
		})
		storetest.Eventually(t, "reported", func() bool {
			state := servicetest.Send(t, http.MethodGet, svc.OperationsURL+"/readyz", nil, nil)
			return state.Status == http.StatusOK &&
				strings.Contains(state.Body, "OPPORTUNITY_ENCRYPTION_KEYS lacks the key of 1 ") &&
				strings.Contains(state.Body, "mail server 127.0.0.1:1")
		})
	})
}

// A mail that cannot be decrypted does not block others, and waits for its key.
func TestASealedMailWaitsForItsKey(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		other := strings.Repeat("a1", 32)
		svc := s.start(t, func(c *authquota.Config) { c.Now, c.Encryption = now.Now, []string{other} })
		s.post(t, now.Now(), welcome)
		storetest.Eventually(t, "said",
			func() bool { return strings.Contains(svc.Log.String(), "OPPORTUNITY_ENCRYPTION_KEYS") })
		svc.stop()
		s.start(t, func(c *authquota.Config) { c.Now, c.Encryption = now.Now, append([]string{other}, c.Encryption...) })
		now.Advance(time.Minute)
		storetest.Eventually(t, "written", func() bool { return len(s.allMails(t)) == 1 })
	})
}

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
			To: "ada@example.org", Template: "key-request-approved", Data: map[string]string{
				"use_case": "journal d’été\r\nBcc: bob@example.org", "link": link,
			},
		})
		s.post(t, now, mail.Message{
			To: "ada@example.org", Template: "confirm-address", Data: map[string]string{"link": link},
		})
		storetest.Eventually(t, "written", func() bool { return len(s.allMails(t)) == 2 && s.waiting(t) == 0 })

		first, second := s.allMails(t)[0], s.allMails(t)[1]
		require.Regexp(t, `^20261120T100000\.250000Z-confirm-address-[0-9a-f]{32}\.eml$`, first.name)
		require.Equal(t, "Confirm your email address", first.subject)
		require.Equal(t, "ada@example.org", first.to)
		require.Equal(t, `"Opportunity Data API" <no-reply@api.example>`, first.header.Get("From"))
		require.Equal(t, "Fri, 20 Nov 2026 10:00:00 +0000", first.header.Get("Date"))
		require.Equal(t, "<mail_"+first.name[len("20261120T100000.250000Z-confirm-address-"):len(first.name)-len(
			".eml")]+"@api.example>", first.header.Get("Message-ID"))
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
