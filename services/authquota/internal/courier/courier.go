// Package courier sends the mails that wait in the database: by SMTP, or into files where no mail is to leave the machine.
//
// Several couriers may work on one database. Each claims a mail, sends it and forgets it. One that ends between the sending and
// the forgetting leaves a mail that is sent once more, under the same Message-ID, when its claim has lapsed: a mail may come
// twice, and none is lost. What fails for now is tried again with growing pauses, for three days.
//
// Nothing here logs an address in full, or a word of a mail.
package courier

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	netmail "net/mail"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	gomail "github.com/wneessen/go-mail"
	"golang.org/x/sync/errgroup"

	"opportunity.internal/services/authquota/internal/mail"
)

// Interval is how often a courier looks for mails.
const Interval = 250 * time.Millisecond

const (
	couriers = 4 // mails on their way at a time
	lease    = 5 * time.Minute
	farewell = 2 * time.Second // what a mail on its way is given when the service stops
	giveUp   = 72 * time.Hour
	answer   = 10 * time.Second // what the database is given for one
)

// Mails are the mails that wait.
type Mails interface {
	ClaimMail(ctx context.Context, lease time.Duration) (claimed mail.Posted, ok bool, err error)
	DeferMail(ctx context.Context, id string, due time.Time) error
	ForgetMail(ctx context.Context, id string) error
	PendingMails(ctx context.Context) (n int, oldest time.Time, err error)
}

// Courier sends mails.
type Courier struct {
	mails  Mails
	target target
	relay  relay
	from   *netmail.Address
	now    func() time.Time
	log    *slog.Logger

	pending, age         prometheus.Gauge
	sent, retried, given *prometheus.CounterVec
}

// New makes a Courier of valid settings.
func New(cfg Config, mails Mails, now func() time.Time, log *slog.Logger, metrics prometheus.Registerer) (*Courier, error) {
	to, err := cfg.target()
	from, err2 := cfg.sender()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	count := func(name, help string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"template"})
		for _, template := range mail.Templates() { // or the first of each would be in no rate
			vec.WithLabelValues(template)
		}
		return vec
	}
	c := &Courier{
		mails: mails, target: to, from: from, now: now, log: log,
		relay:   relay{target: to, roots: cfg.Roots, helo: domain(from.Address)},
		pending: prometheus.NewGauge(prometheus.GaugeOpts{Name: "authquota_mails_pending", Help: "Mails that wait to be sent."}),
		age: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "authquota_mails_oldest_age_seconds", Help: "How long the oldest of the mails that wait has done so; 0 where none does.",
		}),
		sent:    count("authquota_mails_sent_total", "Mails that the mail server took, or that were written to a file."),
		retried: count("authquota_mails_retried_total", "Attempts to send a mail that failed and are made again."),
		given:   count("authquota_mails_failed_total", "Mails that were given up."),
	}
	metrics.MustRegister(c.pending, c.age, c.sent, c.retried, c.given)
	return c, nil
}

// Deliver sends all mails that are due. It returns when none is left, or when ctx ends and what was on its way has had a little
// more time. Its error says that the mails cannot be asked for; that a mail cannot be sent is no failure of Deliver.
func (c *Courier) Deliver(ctx context.Context) error {
	failure := c.deliverAll(ctx)
	ask, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	n, oldest, err := c.mails.PendingMails(ask)
	if err == nil {
		c.pending.Set(float64(n))
		c.age.Set(0)
	}
	if err == nil && n > 0 {
		c.age.Set(c.now().Sub(oldest).Seconds())
	}
	return errors.Join(failure, err)
}

// deliverAll sends one mail after the other, and each that is due at the same time beside it.
func (c *Courier) deliverAll(ctx context.Context) error {
	var busy errgroup.Group
	busy.SetLimit(couriers)
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
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return c.mails.ClaimMail(ctx, lease)
}

// deliver makes one attempt. What fails here of the database is mended by the lease, which lapses.
func (c *Courier) deliver(serving context.Context, m mail.Posted) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(serving))
	defer cancel()
	defer context.AfterFunc(serving, func() { time.AfterFunc(farewell, cancel) })()
	log := c.log.With("mail", m.ID, "template", m.Template, "attempt", m.Attempts)
	err := c.hand(ctx, m)
	if err == nil {
		c.sent.WithLabelValues(m.Template).Inc()
		if c.target.directory != "" {
			log.InfoContext(ctx, "mail written to a file, not sent", "file", fileName(m))
		} else {
			log.InfoContext(ctx, "mail sent")
		}
		if err := c.mails.ForgetMail(ctx, m.ID); err != nil {
			log.ErrorContext(ctx, "mail sent but not forgotten: it will be sent again", "error", err.Error())
		}
		return
	}
	log = log.With("to", mail.Masked(m.Letter.To), "error", err.Error())
	var refused refusal
	if (errors.As(err, &refused) && refused.final) || c.now().Sub(m.At) >= giveUp {
		c.given.WithLabelValues(m.Template).Inc()
		log.ErrorContext(ctx, "mail given up")
		err = c.mails.ForgetMail(ctx, m.ID)
	} else {
		c.retried.WithLabelValues(m.Template).Inc()
		log.WarnContext(ctx, "mail not sent, will be tried again")
		err = c.mails.DeferMail(ctx, m.ID, c.now().Add(pause(m.Attempts)))
	}
	if err != nil {
		log.ErrorContext(ctx, "what became of a mail was not recorded", "error", err.Error())
	}
}

// errSealed: the key under which the letter was sealed is gone. It may come back.
var errSealed = errors.New("the letter does not open: its encryption key is not among OPPORTUNITY_ENCRYPTION_KEYS")

func (c *Courier) hand(ctx context.Context, m mail.Posted) error {
	if m.Sealed {
		return errSealed
	}
	msg, err := c.compose(m)
	if err != nil {
		return err
	}
	if c.target.directory != "" {
		return keep(c.target.directory, fileName(m), msg)
	}
	return c.relay.send(ctx, msg)
}

// compose writes the mail with its headers. The library encodes what stands in them; that none is more than one line, the letter
// has seen to.
func (c *Courier) compose(m mail.Posted) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(c.from)
	if err := msg.To(m.Letter.To); err != nil {
		return nil, errors.New("the address is not accepted") // err quotes it
	}
	msg.Subject(m.Letter.Subject)
	msg.SetDateWithValue(m.At)
	msg.SetMessageIDWithValue(m.ID + "@" + domain(c.from.Address)) // the same each time, so that a second copy is known as one
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(gomail.TypeTextPlain, m.Letter.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.Letter.HTML)
	return msg, nil
}

// fileName sorts by time and says what the mail is.
func fileName(m mail.Posted) string {
	return m.At.UTC().Format("20060102T150405.000000Z") + "-" + m.Template + "-" + strings.TrimPrefix(m.ID, "mail_") + ".eml"
}

func domain(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

// pause is how long to wait after so many attempts: from half a minute, doubling, to an hour. Chance keeps the mails of an outage
// from coming all at once.
func pause(attempts int) time.Duration {
	d := time.Hour
	if attempts < 8 {
		d = 30 * time.Second << (attempts - 1)
	}
	return d - time.Duration(rand.Int64N(int64(d/10)))
}
