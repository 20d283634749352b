package courier_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
)

const (
	withLogin = "smtp://ada:pass%20word%2F1@HOST"
	withTLS   = "smtps://ada:pass%20word%2F1@HOST"
	to        = "ada.lovelace@example.org"
	private   = "https://api.example/account/confirm?token=known-to-one-reader"
)

const template = "confirm-address"

// testCourier is a courier with an outbox and a mail server.
type testCourier struct {
	testkit.DB

	t       *testing.T
	id      string // of the mail
	server  *testkit.SMTPServer
	courier *courier.Courier
	log     bytes.Buffer
	metrics *prometheus.Registry
}

// start returns a courier whose outbox has a mail that is due. HOST in url stands for the server.
func start(t *testing.T, kind testkit.SMTPKind, url string, roots ...*x509.CertPool) *testCourier {
	t.Helper()
	o := &testCourier{DB: testkit.OnSQLite(t), t: t, server: testkit.StartSMTP(t, kind), metrics: prometheus.NewRegistry()}
	require.NoError(t, o.Change(t.Context(), func(tx *accountdb.Tx) error {
		return tx.Post(mail.Message{To: to, Template: template, Data: map[string]string{"link": private}})
	}))
	require.NoError(t, o.Raw("SELECT id FROM mails").Scan(&o.id).Error)
	cfg := courier.Config{
		URL: strings.Replace(url, "HOST", o.server.Address, 1), From: "Opportunity Data API <no-reply@api.example>",
		Roots: append(roots, o.server.Roots)[0],
	}
	var err error
	o.courier, err = courier.New(cfg, o.DB.DB, slog.New(slog.NewTextHandler(&o.log, nil)), o.metrics)
	require.NoError(t, err)
	return o
}

// due returns when the mail is due, or the zero time if the outbox is empty.
func (o *testCourier) due() time.Time {
	o.t.Helper()
	var due []int64
	require.NoError(o.t, o.Raw("SELECT due_at FROM mails").Scan(&due).Error)
	if len(due) == 0 {
		return time.Time{}
	}
	return time.UnixMicro(due[0]).UTC()
}

func (o *testCourier) gone() bool { return o.due().IsZero() }

// deliver sends the mail if it is due. The log must not contain secrets.
func (o *testCourier) deliver() {
	o.t.Helper()
	require.NoError(o.t, o.courier.Deliver(o.t.Context()))
	for _, secret := range []string{"known-to-one-reader", "lovelace", "pass word/1", "pass%20word"} {
		require.NotContains(o.t, o.log.String(), secret)
	}
}

// metric requires the value of a metric, without a label or with that of the mail's template.
func (o *testCourier) metric(name string, want float64) {
	o.t.Helper()
	families := storetest.Must(o.metrics.Gather())(o.t)
	for _, family := range families {
		for _, m := range family.Metric {
			if labels := m.Label; family.GetName() == name && (len(labels) == 0 || labels[0].GetValue() == template) {
				require.InDelta(o.t, want, m.GetCounter().GetValue()+m.GetGauge().GetValue(), 0, name)
				return
			}
		}
	}
	o.t.Fatal("no metric", name)
}

func TestMailsAreSent(t *testing.T) {
	for name, c := range map[string]struct {
		kind   testkit.SMTPKind
		url    string
		secure bool
		user   string
	}{
		"STARTTLS":           {testkit.SMTPKind{}, withLogin, true, "ada"},
		"TLS from the start": {testkit.SMTPKind{Implicit: true}, withTLS, true, "ada"},
		"without a login":    {testkit.SMTPKind{NoLogin: true}, "smtp://HOST", true, ""},
		"without TLS":        {testkit.SMTPKind{Plain: true, NoLogin: true}, "smtp://HOST?starttls=off", false, ""},
		"within the machine": {testkit.SMTPKind{Plain: true}, withLogin + "?starttls=off", false, "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			o := start(t, c.kind, c.url)
			require.NoError(t, o.courier.Check(t.Context()))
			require.Equal(t, c.user != "", o.server.Logins() == 1)
			require.Empty(t, o.server.Deliveries())
			o.deliver()
			require.Len(t, o.server.Deliveries(), 1)
			got := o.server.Deliveries()[0]
			require.Equal(t, testkit.Delivery{From: "no-reply@api.example", To: to, Secure: c.secure, User: c.user,
				Raw: got.Raw}, got)
			m := storetest.Must(netmail.ReadMessage(strings.NewReader(got.Raw)))(t)
			require.Equal(t, "<"+o.id+"@api.example>", m.Header.Get("Message-ID"))
			text := storetest.Must(io.ReadAll(quotedprintable.NewReader(m.Body)))(t)
			require.Contains(t, string(text), private)
			require.True(t, o.gone())
		})
	}
}

func TestMailsBecomeFiles(t *testing.T) {
	directory := t.TempDir()
	o := start(t, testkit.SMTPKind{}, "file://"+directory)
	o.deliver()
	require.True(t, o.gone())
	require.Contains(t, o.log.String(), "mail written to a file, not sent")
	read := func(suffix string) string {
		name := "20261120T100000.000000Z-" + template + "-" + strings.TrimPrefix(o.id, "mail_") + suffix
		file := filepath.Join(directory, name)
		require.Equal(t, os.FileMode(0o600), storetest.Must(os.Stat(file))(t).Mode().Perm())
		return string(storetest.Must(os.ReadFile(file))(t))
	}
	text := read(".txt")
	require.True(t, strings.HasPrefix(text, "To: "+to+"\nSubject: "), text)
	require.Contains(t, text, "\n"+private+"\n")
	m := storetest.Must(netmail.ReadMessage(strings.NewReader(read(".eml"))))(t)
	for field, want := range map[string]string{
		"From": `"Opportunity Data API" <no-reply@api.example>`, "To": "<" + to + ">",
		"Date": "Fri, 20 Nov 2026 10:00:00 +0000", "Auto-Submitted": "auto-generated",
		"Message-ID": "<" + o.id + "@api.example>",
	} {
		require.Equal(t, want, m.Header.Get(field), field)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, want := range [][2]string{{"text/plain", private}, {"text/html", `href="` + private + `"`}} { // clients prefer the last
		part := storetest.Must(parts.NextPart())(t)
		require.Equal(t, want[0]+"; charset=UTF-8", part.Header.Get("Content-Type"))
		require.Contains(t, string(storetest.Must(io.ReadAll(part))(t)), want[1])
	}
	require.ErrorIs(t, storetest.Err(parts.NextPart()), io.EOF)
}

// Mails and passwords are sent only over TLS, to a server with a valid certificate. The check logs
// in, and sends nothing.
func TestMailsAreSentToTheRightServerOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	unknown := x509.NewCertPool()
	for name, c := range map[string]struct {
		kind   testkit.SMTPKind
		url    string
		roots  []*x509.CertPool
		logins int // by the check
		fault  string
	}{
		"no STARTTLS":                 {testkit.SMTPKind{Plain: true}, withLogin, nil, 0, "STARTTLS"},
		"unknown authority":           {testkit.SMTPKind{}, withLogin, []*x509.CertPool{unknown}, 0, "certificate"},
		"unknown authority, from TLS": {testkit.SMTPKind{Implicit: true}, withTLS, []*x509.CertPool{unknown}, 0, "certificate"},
		"wrong password":              {testkit.SMTPKind{}, "smtp://ada:guess@HOST", nil, 1, "rejected with 535"},
		"no login where one is meant": {testkit.SMTPKind{NoLogin: true}, withLogin, nil, 0, "AUTH"},
		"closed port":                 {testkit.SMTPKind{}, "smtp://ada:guess@127.0.0.1:1", nil, 0, "mail server 127.0.0.1:1: "},
		"no directory":                {testkit.SMTPKind{}, "file://" + file, nil, 0, "mail directory: mkdir " + file},
	} {
		t.Run(name, func(t *testing.T) {
			o := start(t, c.kind, c.url, c.roots...)
			err := o.courier.Check(t.Context())
			require.ErrorContains(t, err, c.fault)
			require.ErrorContains(t, err, "OPPORTUNITY_SMTP_URL")
			require.NotContains(t, err.Error(), "guess")
			require.Equal(t, err.Error(), o.courier.Fault())
			require.Equal(t, c.logins, o.server.Logins())
			o.deliver()
			require.Contains(t, o.log.String(), "mail not sent, will retry")
			require.Contains(t, o.log.String(), "to=a…@example.org")
			require.Empty(t, o.server.Deliveries())
			require.False(t, o.gone())
			require.Equal(t, 2*c.logins, o.server.Logins())
		})
	}
}

func TestRejectedMails(t *testing.T) {
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try later, " + to}
	unknown := &smtp.SMTPError{
		Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no lovelace here, nor " + private,
	}
	policy := &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "relaying lovelace denied"}
	for name, c := range map[string]struct {
		step  string
		with  *smtp.SMTPError
		final bool
	}{
		"greylisted":            {"recipient", busy, false},
		"no such person":        {"recipient", unknown, true},
		"no relaying":           {"recipient", policy, false},
		"sender not known":      {"sender", unknown, false},
		"content, for now":      {"data", busy, false},
		"content, for good":     {"data", unknown, true},
		"policy on the content": {"data", policy, false},
		"login, for now":        {"login", busy, false},
		"connection lost":       {"data", testkit.ErrLost, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := start(t, testkit.SMTPKind{}, withLogin)
			o.server.Reject(c.step, c.with)
			require.Equal(t, c.step == "login", o.courier.Check(t.Context()) != nil)
			o.deliver()
			if c.with != testkit.ErrLost {
				require.Contains(t, o.log.String(), fmt.Sprintf("rejected with %d", c.with.Code))
			}
			require.Equal(t, c.final, o.gone())
			if c.final {
				require.Contains(t, o.log.String(), "mail given up")
				o.metric("authquota_mails_failed_total", 1)
				return
			}
			require.Contains(t, o.log.String(), "mail not sent, will retry")
			o.metric("authquota_mails_retried_total", 1)
			o.server.Reject(c.step, nil)
			o.Clock.Set(o.due())
			o.deliver()
			require.Len(t, o.server.Deliveries(), 1)
			require.True(t, o.gone())
			require.Empty(t, o.courier.Fault(), "a sent mail ends it")
			o.metric("authquota_mails_sent_total", 1)
		})
	}
}

// A mail that cannot be decrypted waits for its key.
func TestASealedMailWaitsForItsKey(t *testing.T) {
	o := start(t, testkit.SMTPKind{}, withLogin)
	lost := o.Box
	o.Box = testkit.Box(t, "a1")
	o.deliver()
	require.Contains(t, o.log.String(), "its key is not in OPPORTUNITY_ENCRYPTION_KEYS")
	require.False(t, o.gone())
	o.Box = lost
	o.Clock.Set(o.due())
	o.deliver()
	require.True(t, o.gone())
}

// A process that stops does not wait for a mail server that withholds its reply. The mail stays.
func TestStopEndsADeliveryWithoutAReply(t *testing.T) {
	silent := storetest.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	o := start(t, testkit.SMTPKind{}, "smtp://"+silent.Addr().String()+"?starttls=off")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		conn, err := silent.Accept()
		if err == nil {
			stop()
			_, _ = io.Copy(io.Discard, conn) // until the courier closes it
		}
	}()
	require.ErrorIs(t, o.courier.Deliver(ctx), context.Canceled)
	require.Contains(t, o.log.String(), "mail not sent, will retry")
	require.NotContains(t, o.log.String(), "timeout", "the courier must close the connection before")
	require.False(t, o.gone())
}

func TestMailsAreRetriedForThreeDaysWithBackoff(t *testing.T) {
	o := start(t, testkit.SMTPKind{}, withLogin)
	o.server.Reject("recipient", &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "full"})
	for attempt := range 9 {
		o.deliver()
		wait, most := o.due().Sub(o.Now()), min(30*time.Second<<attempt, time.Hour)
		require.LessOrEqual(t, wait, most, "after attempt %d", attempt+1)
		require.GreaterOrEqual(t, wait, most-most/10, "after attempt %d", attempt+1)
		o.metric("authquota_mails_pending", 1)
		o.metric("authquota_mails_oldest_age_seconds", o.Now().Sub(testkit.Start).Seconds())
		o.Clock.Set(o.due())
	}
	o.Advance(72 * time.Hour)
	o.deliver()
	require.Contains(t, o.log.String(), "mail given up")
	require.True(t, o.gone())
	require.Empty(t, o.server.Deliveries())
	o.metric("authquota_mails_pending", 0)
	o.metric("authquota_mails_oldest_age_seconds", 0)
}
