package accountpages

import (
	"html/template"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keyusage"
)

func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"right":   func() string { return api.UsageRight },
		"mails":   func() string { return p.MailDirectory },
		"instant": instant, "day": day, "count": count, "class": keyusage.Group.Class, "operator": p.operator,
		"public": func() string { return p.PublicURL },
	}
}

// operator returns how pages refer to the operator, with the contact if configured.
func (p *Pages) operator() template.HTML {
	const who = "the operator of the service"
	if p.Contact == "" {
		return who
	}
	address := p.Contact
	if !strings.HasPrefix(address, "https://") {
		address = "mailto:" + address
	}
	return template.HTML(who + ` (<a href="` + template.HTMLEscapeString(address) + `">` + template.HTMLEscapeString(p.Contact) + `</a>)`) //nolint:gosec // validated at startup, and escaped
}

func count(n int) string { return humanize.Comma(int64(n)) }

// instant formats a time; a script adds the local time.
func instant(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2 January 2006, 15:04") + ` UTC</time>`) //nolint:gosec // digits and month names
}

func day(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.DateOnly) + `">` + t.Format("2 January 2006") + `</time>`) //nolint:gosec // digits and month names
}
