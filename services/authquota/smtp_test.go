package authquota_test

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	netmail "net/mail"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

var (
	private = "https://api.example/account/confirm?token=known-to-one-reader"
	welcome = mail.Message{
		To: "ada.lovelace@example.org", Template: "confirm-address", Data: map[string]string{"link": private},
	}
)

// The service stays ready, because people who need neither mails nor authenticators are served.
func TestReadinessReportsMailServerAndEncryptionKeys(t *testing.T) {
	s := onStores(t)
	post(t, s, begin, welcome)
	svc, _ := startAt(t, s, begin, func(c *authquota.Config) {
		c.Encryption, c.Mail.URL = []string{strings.Repeat("a1", 32)}, "smtp://127.0.0.1:1"
	})
	storetest.Eventually(t, "reported", func() bool {
		state := servicetest.Send(t, http.MethodGet, svc.OperationsURL+"/readyz", nil, nil)
		return state.Status == http.StatusOK &&
			strings.Contains(state.Body, "OPPORTUNITY_ENCRYPTION_KEYS lacks the key of 1 ") &&
			strings.Contains(state.Body, "mail server 127.0.0.1:1")
	})
}

// post writes a mail to the outbox, due at a time.
func post(t *testing.T, s *sitekit.Stores, at time.Time, m mail.Message) {
	t.Helper()
	db := testkit.Open(t, s.Database, func() time.Time { return at })
	require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error { return tx.Post(m) }))
}

func TestMailsBecomeFiles(t *testing.T) {
	s := onStores(t)
	now := begin.Add(250 * time.Millisecond)
	svc, _ := startAt(t, s, now.Add(time.Minute)) // the courier gives old mails up
	link := "https://api.example/account/confirm?token=a-secret-of-onemail&more=1"
	post(t, s, now, mail.Message{
		To: "ada@example.org", Template: "key-request-approved", Data: map[string]string{
			"use_case": "journal d’été\r\nBcc: bob@example.org", "link": link,
		},
	})
	written := s.Mail(t, "ada@example.org", "key-request-approved", 1)
	name := written.File
	require.Regexp(t, `/20261120T100000\.250000Z-key-request-approved-[0-9a-f]{32}\.eml$`, name)
	require.Contains(t, written.Text, "journal d’été  Bcc: bob@example.org")
	require.Contains(t, written.Text, "\n"+link+"\n")

	raw := storetest.Must(os.ReadFile(name))(t)
	m := storetest.Must(netmail.ReadMessage(strings.NewReader(string(raw))))(t)
	for field, want := range map[string]string{
		"From": `"Opportunity Data API" <no-reply@api.example>`, "To": "<ada@example.org>", "Bcc": "",
		"Date": "Fri, 20 Nov 2026 10:00:00 +0000", "Auto-Submitted": "auto-generated",
		"Message-ID": "<mail_" + name[len(name)-36:len(name)-4] + "@api.example>", "Subject": "Your key is ready",
	} {
		require.Equal(t, want, m.Header.Get(field), field)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, want := range [][2]string{{"text/plain", written.Text},
		{"text/html", `href="` + strings.ReplaceAll(link, "&", "&amp;") + `"`}} { // clients prefer the last part
		part := storetest.Must(parts.NextPart())(t)
		require.Equal(t, want[0]+"; charset=UTF-8", part.Header.Get("Content-Type"))
		text := storetest.Must(io.ReadAll(part))(t)
		require.Contains(t, strings.ReplaceAll(string(text), "\r\n", "\n"), want[1])
	}
	require.ErrorIs(t, storetest.Err(parts.NextPart()), io.EOF)

	file := storetest.Must(os.Stat(name))(t)
	require.Equal(t, os.FileMode(0o600), file.Mode().Perm())
	require.Contains(t, svc.Log.String(), "mail written to a file, not sent")
	for _, private := range []string{"a-secret-of-onemail", "ada@", "d’été"} {
		require.NotContains(t, svc.Log.String(), private)
	}
	storetest.Eventually(t, "counted", func() bool {
		return svc.HasMetric("authquota_mails_pending 0") &&
			svc.HasMetric(`authquota_mails_sent_total{template="key-request-approved"} 1`)
	})
}
