package authquota_test

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/mail/courier"
)

// by makes the service send through an SMTP server, on the test's clock.
func by(m *mailServer, url string, c *clock) func(*authquota.Config) {
	return func(cfg *authquota.Config) {
		cfg.Now = c.Now
		cfg.Mail = courier.Config{URL: strings.Replace(url, "HOST", m.address, 1), From: "Opportunity Data API <no-reply@api.example>", Roots: m.roots}
	}
}

var (
	tenOClock = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	private   = "https://api.example/account/confirm?token=known-to-one-reader"
	welcome   = mail.Message{To: "ada.lovelace@example.org", Template: "confirm-address", Data: map[string]string{"link": private}}
)

const withLogin = "smtp://ada:pass%20word%2F1@HOST"

func (s *service) tellsNothing() {
	s.t.Helper()
	for _, secret := range []string{"known-to-one-reader", "lovelace", "pass word/1", "pass%20word"} {
		require.NotContains(s.t, s.log.String(), secret)
	}
}

func TestMailsAreSent(t *testing.T) {
	for name, c := range map[string]struct {
		kind mailServerKind
		url  string
		want delivery
	}{
		"STARTTLS":           {mailServerKind{}, withLogin, delivery{secure: true, user: "ada"}},
		"TLS from the start": {mailServerKind{implicit: true}, "smtps://ada:pass%20word%2F1@HOST", delivery{secure: true, user: "ada"}},
		"without a login":    {mailServerKind{noLogin: true}, "smtp://HOST", delivery{secure: true}},
		"without TLS":        {mailServerKind{plain: true, noLogin: true}, "smtp://HOST?starttls=off", delivery{}},
		"within the machine": {mailServerKind{plain: true}, withLogin + "?starttls=off", delivery{user: "ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, s *stores) {
				server, now := startMailServer(t, c.kind), clockAt(tenOClock)
				svc := s.start(t, by(server, c.url, now))
				id := s.post(t, now.Now(), welcome)
				storetest.Eventually(t, "sent and forgotten", func() bool { return len(server.deliveries()) == 1 && s.waiting(t) == 0 })
				got := server.deliveries()[0]
				require.Equal(t, delivery{from: "no-reply@api.example", to: welcome.To, secure: c.want.secure, user: c.want.user, raw: got.raw}, got)
				m := readMail(t, got.raw)
				require.Equal(t, "<"+id+"@api.example>", m.header.Get("Message-ID"))
				require.Equal(t, welcome.To, m.address)
				require.Contains(t, m.plain, private)
				svc.tellsNothing()
			})
		})
	}
}

// Mails and passwords are sent only over TLS, to a server with a valid certificate.
func TestMailsAreSentToTheRightServerOnly(t *testing.T) {
	for name, c := range map[string]struct {
		kind  mailServerKind
		url   string
		known bool
	}{
		"no STARTTLS":                 {mailServerKind{plain: true}, withLogin, true},
		"unknown authority":           {mailServerKind{}, withLogin, false},
		"unknown authority, from TLS": {mailServerKind{implicit: true}, "smtps://ada:pass%20word%2F1@HOST", false},
		"wrong password":              {mailServerKind{}, "smtp://ada:guess@HOST", true},
		"no login where one is meant": {mailServerKind{noLogin: true}, withLogin, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, s *stores) {
				server, now := startMailServer(t, c.kind), clockAt(tenOClock)
				if !c.known {
					server.roots = x509.NewCertPool()
				}
				svc := s.start(t, by(server, c.url, now))
				s.post(t, now.Now(), welcome)
				storetest.Eventually(t, "said", func() bool { return strings.Contains(svc.log.String(), "mail not sent, will retry") })
				require.Empty(t, server.deliveries())
				require.Equal(t, 1, s.waiting(t))
				if _, logins := server.connections(); name != "wrong password" {
					require.Zero(t, logins)
				}
				require.Contains(t, svc.log.String(), `"to":"a…@example.org"`)
				svc.tellsNothing()
			})
		})
	}
}

func TestRejectedMails(t *testing.T) {
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try later, ada.lovelace@example.org"}
	nobody := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no lovelace here, nor " + private}
	policy := &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "relaying lovelace denied"}
	for name, c := range map[string]struct {
		step  string
		with  *smtp.SMTPError
		final bool
	}{
		"greylisted":            {"recipient", busy, false},
		"no such person":        {"recipient", nobody, true},
		"no relaying":           {"recipient", policy, false},
		"sender not known":      {"sender", nobody, false},
		"content, for now":      {"data", busy, false},
		"content, for good":     {"data", nobody, true},
		"policy on the content": {"data", policy, false},
		"login, for now":        {"login", busy, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, s *stores) {
				server, now := startMailServer(t, mailServerKind{}), clockAt(tenOClock)
				server.reject(c.step, c.with)
				svc := s.start(t, by(server, withLogin, now))
				s.post(t, now.Now(), welcome)
				if c.final {
					storetest.Eventually(t, "given up", func() bool { return s.waiting(t) == 0 && strings.Contains(svc.log.String(), "mail given up") })
					require.Contains(t, svc.metrics(), `authquota_mails_failed_total{template="confirm-address"} 1`)
				} else {
					storetest.Eventually(t, "kept", func() bool { return strings.Contains(svc.log.String(), "mail not sent, will retry") })
					require.Equal(t, 1, s.waiting(t))
					server.reject(c.step, nil)
					storetest.Eventually(t, "sent after a pause", func() bool {
						now.move(time.Second)
						return s.waiting(t) == 0
					})
					require.Len(t, server.deliveries(), 1)
					require.Contains(t, svc.metrics(), `authquota_mails_sent_total{template="confirm-address"} 1`)
				}
				require.Contains(t, svc.log.String(), fmt.Sprintf("rejected with %d", c.with.Code))
				svc.tellsNothing()
			})
		})
	}
}

func TestMailsAreRetriedForThreeDaysWithBackoff(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		server, now := startMailServer(t, mailServerKind{}), clockAt(tenOClock)
		server.reject("recipient", &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "full"})
		svc := s.start(t, by(server, withLogin, now))
		s.post(t, now.Now(), welcome)
		tries := func() int { return strings.Count(svc.log.String(), "mail not sent, will retry") }
		storetest.Eventually(t, "tried", func() bool { return tries() == 1 && strings.Contains(svc.metrics(), "authquota_mails_pending 1") })

		// put returns the delay of the mail after its claim was released.
		put := func() (wait time.Duration) {
			storetest.Eventually(t, "put off", func() bool {
				var due int64
				require.NoError(t, s.open(t).Raw("SELECT due_at FROM mails").Scan(&due).Error)
				wait = time.UnixMicro(due).Sub(now.Now())
				return wait > 0 && wait != 5*time.Minute
			})
			return wait
		}
		for i := range 9 {
			storetest.Eventually(t, "tried", func() bool { return tries() == i+1 })
			wait, most := put(), min(30*time.Second<<i, time.Hour)
			require.LessOrEqual(t, wait, most, "after try %d", i+1)
			require.GreaterOrEqual(t, wait, most-most/10, "after try %d", i+1)
			now.move(wait)
		}
		metric := func(name string) (value float64) {
			_, after, _ := strings.Cut(svc.metrics(), "\n"+name+" ")
			_, err := fmt.Sscan(after, &value)
			require.NoError(t, err)
			return value
		}
		storetest.Eventually(t, "its age is known", func() bool { return metric("authquota_mails_oldest_age_seconds") > (2 * time.Hour).Seconds() })
		now.move(72 * time.Hour)
		storetest.Eventually(t, "given up", func() bool { return s.waiting(t) == 0 })
		require.Contains(t, svc.log.String(), "mail given up")
		require.Empty(t, server.deliveries())
		storetest.Eventually(t, "nothing waits", func() bool { return metric("authquota_mails_oldest_age_seconds") == 0 })
	})
}

func TestSeveralSendersSendEachMailOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		server, now := startMailServer(t, mailServerKind{noLogin: true}), clockAt(tenOClock)
		s.start(t, by(server, "smtp://HOST", now))
		s.startMigrated(t, by(server, "smtp://HOST", now))
		want := map[string]bool{}
		for range 40 {
			want["<"+s.post(t, now.Now(), welcome)+"@api.example>"] = true
		}
		storetest.Eventually(t, "all sent", func() bool { return s.waiting(t) == 0 })
		require.Len(t, server.deliveries(), 40)
		for _, d := range server.deliveries() {
			id := readMail(t, d.raw).header.Get("Message-ID")
			require.True(t, want[id], "%s twice, or never posted", id)
			delete(want, id)
		}
	})
}

// If a sender stops between sending and deleting, the mail is sent again as the same message; none is lost.
func TestAMailWhoseSenderDiedIsSentAgain(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		server, now := startMailServer(t, mailServerKind{noLogin: true}), clockAt(tenOClock)
		first := s.start(t, by(server, "smtp://HOST", now))
		release := server.hold()
		defer release()
		s.post(t, now.Now(), welcome)
		storetest.Eventually(t, "arrived, not confirmed", func() bool { return len(server.deliveries()) == 1 })
		first.stop() // waits briefly for the reply
		release()
		require.Equal(t, 1, s.waiting(t))

		s.startMigrated(t, by(server, "smtp://HOST", now))
		require.Len(t, server.deliveries(), 1, "nobody takes it while the claim of the other may hold")
		now.move(5 * time.Minute)
		storetest.Eventually(t, "sent again", func() bool { return s.waiting(t) == 0 })
		sent := server.deliveries()
		require.Len(t, sent, 2)
		require.Equal(t, readMail(t, sent[0].raw).header.Get("Message-ID"), readMail(t, sent[1].raw).header.Get("Message-ID"))
	})
}

// A mail that cannot be decrypted does not block others, and waits for its key.
func TestASealedMailWaitsForItsKey(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := clockAt(tenOClock)
		other := strings.Repeat("a1", 32)
		svc := s.start(t, func(c *authquota.Config) { c.Now, c.Encryption = now.Now, []string{other} })
		s.post(t, now.Now(), welcome)
		storetest.Eventually(t, "said", func() bool { return strings.Contains(svc.log.String(), "OPPORTUNITY_ENCRYPTION_KEYS") })
		svc.stop()
		s.startMigrated(t, func(c *authquota.Config) { c.Now, c.Encryption = now.Now, append([]string{other}, c.Encryption...) })
		now.move(time.Minute)
		storetest.Eventually(t, "written", func() bool { return len(s.mails(t)) == 1 })
	})
}
