package authquota_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
)

// by makes the service send through an SMTP server, on the test's clock.
func by(m *testkit.SMTPServer, url string, c *servicetest.Clock) func(*authquota.Config) {
	return func(cfg *authquota.Config) {
		cfg.Now = c.Now
		cfg.Mail = courier.Config{URL: strings.Replace(url, "HOST", m.Address, 1), From: "Opportunity Data API <no-reply@api.example>", Roots: m.Roots}
	}
}

var (
	private = "https://api.example/account/confirm?token=known-to-one-reader"
	welcome = mail.Message{To: "ada.lovelace@example.org", Template: "confirm-address", Data: map[string]string{"link": private}}
)

func TestSeveralSendersSendEachMailOnce(t *testing.T) {
	onProductionStores(t, func(t *testing.T, s *stores) {
		server, now := testkit.StartSMTP(t, testkit.SMTPKind{NoLogin: true}), servicetest.NewClock(begin)
		s.start(t, by(server, "smtp://HOST", now))
		s.start(t, by(server, "smtp://HOST", now))
		for i := range 40 {
			s.post(t, now.Now(), mail.Message{To: welcome.To, Template: "recovery-code-used", Data: map[string]string{"left": strconv.Itoa(i)}})
		}
		storetest.Eventually(t, "all sent", func() bool { return s.waiting(t) == 0 })
		require.Len(t, server.Deliveries(), 40)
		sent := map[string]bool{}
		for _, d := range server.Deliveries() {
			sent[readMail(t, d.Raw).header.Get("Message-ID")] = true
		}
		require.Len(t, sent, 40, "none twice")
	})
}

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
			return state.Status == http.StatusOK && strings.Contains(state.Body, "OPPORTUNITY_ENCRYPTION_KEYS lacks the key of 1 ") &&
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
		storetest.Eventually(t, "said", func() bool { return strings.Contains(svc.Log.String(), "OPPORTUNITY_ENCRYPTION_KEYS") })
		svc.stop()
		s.start(t, func(c *authquota.Config) { c.Now, c.Encryption = now.Now, append([]string{other}, c.Encryption...) })
		now.Advance(time.Minute)
		storetest.Eventually(t, "written", func() bool { return len(s.allMails(t)) == 1 })
	})
}
