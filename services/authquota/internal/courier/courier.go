// Package courier sends the mails in the outbox, by SMTP or, for local use, to files.
//
// Several couriers may share one database. Each claims a mail, sends it and deletes it. If a
// courier stops after sending and before deleting, the mail is sent again with the same Message-ID
// once the claim expires. So a mail may arrive twice, but none is lost. The same holds for the
// mails in a restored database, which may have been sent before. Temporary failures are retried
// with exponential backoff for three days. An older mail, such as one from an old backup, is not
// sent.
//
// Logs never contain a full address or any text of a mail.
package courier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	netmail "net/mail"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	gomail "github.com/wneessen/go-mail"
	"golang.org/x/sync/errgroup"

	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
)

// Interval is the time between checks for due mails: those to be sent again, and those of other
// processes.
const Interval = 5 * time.Second

const (
	concurrency   = 4 // concurrent deliveries
	lease         = 5 * time.Minute
	shutdownGrace = 2 * time.Second // extra time for mails being sent at shutdown
	giveUp        = 72 * time.Hour
	dbTimeout     = 10 * time.Second // timeout of one database call
)

// Courier sends mails.
type Courier struct {
	outbox *accountdb.DB
	target target
	relay  relay
	from   *netmail.Address
	log    *slog.Logger
	fault  atomic.Pointer[string] // of the latest contact with the mail server; nil if it went well

	pending, age         prometheus.Gauge
	sent, retried, given *prometheus.CounterVec
}

// New returns a Courier. The settings must be valid.
func New(cfg Config, outbox *accountdb.DB, log *slog.Logger, metrics prometheus.Registerer) (*Courier, error) {
	to, err := cfg.target()
	from, err2 := cfg.sender()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	count := func(name, help string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"template"})
		for _, template := range mail.Templates() { // create the series, or rates miss the first increment
			vec.WithLabelValues(template)
		}
		return vec
	}
	c := &Courier{
		outbox: outbox, target: to, from: from, log: log,
		relay:   relay{target: to, roots: cfg.Roots, helo: domain(from.Address)},
		pending: prometheus.NewGauge(prometheus.GaugeOpts{Name: "authquota_mails_pending", Help: "Mails in the outbox."}),
		age: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "authquota_mails_oldest_age_seconds", Help: "Age of the oldest mail in the outbox; 0 if it is empty.",
		}),
		sent:    count("authquota_mails_sent_total", "Mails accepted by the mail server or written to a file."),
		retried: count("authquota_mails_retried_total", "Failed attempts to send a mail that will be retried."),
		given:   count("authquota_mails_failed_total", "Mails that failed permanently."),
	}
	metrics.MustRegister(c.pending, c.age, c.sent, c.retried, c.given)
	return c, nil
}

// Check returns an error unless mails can be handed over: it connects to the mail server and logs
// in, without sending, or creates a file.
func (c *Courier) Check(ctx context.Context) error {
	check, where := c.relay.check, "mail server "+net.JoinHostPort(c.target.host, c.target.port)
	if c.target.directory != "" {
		check, where = func(context.Context) error { return checkDirectory(c.target.directory) }, "mail directory"
	}
	err := check(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w; see OPPORTUNITY_SMTP_URL", where, err)
	}
	c.noted(err)
	return err
}

// Fault returns why mails could not be handed over at the latest attempt, or "".
func (c *Courier) Fault() string {
	if text := c.fault.Load(); text != nil {
		return *text
	}
	return ""
}

func (c *Courier) noted(err error) {
	if err == nil {
		c.fault.Store(nil)
		return
	}
	text := err.Error()
	c.fault.Store(&text)
}

// Deliver sends all due mails. It returns when none is left, or shortly after ctx ends. It returns
// an error only if the outbox cannot be read; a mail that cannot be sent is not an error.
func (c *Courier) Deliver(ctx context.Context) error {
	failure := c.deliverAll(ctx)
	ask, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	n, oldest, err := c.outbox.PendingMails(ask)
	if err == nil {
		c.pending.Set(float64(n))
		c.age.Set(0)
	}
	if err == nil && n > 0 {
		c.age.Set(c.outbox.Now().Sub(oldest).Seconds())
	}
	return errors.Join(failure, err)
}

// deliverAll sends due mails one after the other, and each additional due mail concurrently.
func (c *Courier) deliverAll(ctx context.Context) error {
	var busy errgroup.Group
	busy.SetLimit(concurrency)
	for ctx.Err() == nil {
		m, ok, err := c.claim(ctx)
		if err != nil || !ok {
			return errors.Join(err, busy.Wait())
		}
		busy.Go(func() error {
			c.deliver(ctx, m)
			return nil
		})
	}
	return busy.Wait()
}

func (c *Courier) claim(ctx context.Context) (mail.Posted, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	return c.outbox.ClaimMail(ctx, lease)
}

// deliver makes one attempt. If the result cannot be saved, the claim expires and the mail is sent
// again.
func (c *Courier) deliver(serving context.Context, m mail.Posted) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(serving))
	defer cancel()
	defer context.AfterFunc(serving, func() { time.AfterFunc(shutdownGrace, cancel) })()
	log := c.log.With("mail_id", m.ID, "template", m.Template, "attempt", m.Attempts)
	err := errOutdated
	if c.outbox.Now().Sub(m.At) < giveUp {
		err = c.handOver(ctx, m)
	}
	if err == nil {
		c.noted(nil)
		c.sent.WithLabelValues(m.Template).Inc()
		if c.target.directory != "" {
			log.InfoContext(ctx, "mail written to a file, not sent", "file", fileName(m))
		} else {
			log.InfoContext(ctx, "mail sent")
		}
		if err := c.outbox.DeleteMail(ctx, m.ID); err != nil {
			log.ErrorContext(ctx, "mail sent but not deleted from outbox: it will be sent again", "error", err.Error())
		}
		return
	}
	log = log.With("to", mail.Masked(m.Letter.To), "error", err.Error())
	var refused rejection
	if (errors.As(err, &refused) && refused.final) || c.outbox.Now().Sub(m.At) >= giveUp {
		c.given.WithLabelValues(m.Template).Inc()
		log.ErrorContext(ctx, "mail given up")
		err = c.outbox.DeleteMail(ctx, m.ID)
	} else {
		c.retried.WithLabelValues(m.Template).Inc()
		log.WarnContext(ctx, "mail not sent, will retry")
		err = c.outbox.DeferMail(ctx, m.ID, c.outbox.Now().Add(retryDelay(m.Attempts)))
	}
	if err != nil {
		log.ErrorContext(ctx, "mail outbox update failed", "error", err.Error())
	}
}

var errOutdated = errors.New("mail is older than three days")

// errSealed means that the encryption key of a mail is missing. The key may be added again.
var errSealed = errors.New("mail cannot be decrypted: its key is not in OPPORTUNITY_ENCRYPTION_KEYS")

func (c *Courier) handOver(ctx context.Context, m mail.Posted) error {
	if m.Sealed {
		return errSealed
	}
	msg, err := c.compose(m)
	if err != nil {
		return err
	}
	if c.target.directory != "" {
		text := fmt.Sprintf("To: %s\nSubject: %s\n\n%s", m.Letter.To, m.Letter.Subject, m.Letter.Text)
		if err := saveFile(c.target.directory, fileName(m)+".txt", strings.NewReader(text)); err != nil {
			return err
		}
		return saveFile(c.target.directory, fileName(m)+".eml", msg)
	}
	return c.relay.send(ctx, msg)
}

// compose returns the mail with its headers. The library encodes header values; mail.Writer ensures
// that each is one line.
func (c *Courier) compose(m mail.Posted) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(c.from)
	if err := msg.To(m.Letter.To); err != nil {
		return nil, errors.New("invalid recipient address") // err quotes the address
	}
	msg.Subject(m.Letter.Subject)
	msg.SetDateWithValue(m.At)
	// the same on each attempt, so that duplicates are recognized
	msg.SetMessageIDWithValue(m.ID + "@" + domain(c.from.Address))
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(gomail.TypeTextPlain, m.Letter.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.Letter.HTML)
	return msg, nil
}

func fileName(m mail.Posted) string {
	return m.At.UTC().Format("20060102T150405.000000Z") + "-" + m.Template + "-" + strings.TrimPrefix(m.ID, "mail_")
}

func domain(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

// retryDelay returns the delay before the next attempt: 30 seconds, doubled after each attempt up
// to an hour, with jitter to spread the mails of an outage.
func retryDelay(attempts int) time.Duration {
	d := time.Hour
	if attempts < 8 {
		d = 30 * time.Second << (attempts - 1)
	}
	return d - time.Duration(rand.Int64N(int64(d/10)))
}
