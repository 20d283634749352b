package pages

import (
	"html/template"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/usage"
)

// functions returns the functions of the templates.
func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"right":   func() string { return api.UsageRight },
		"mails":   func() string { return p.MailDirectory },
		"instant": instant, "day": day, "count": count, "class": usage.Group.Class, "operator": p.operator,
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

// count formats a number such as 12,345.
func count(n int) string { return humanize.Comma(int64(n)) }

// instant formats a time; a script adds the local time.
func instant(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2 January 2006, 15:04") + ` UTC</time>`) //nolint:gosec // digits and month names
}

// day formats the UTC day of a time.
func day(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.DateOnly) + `">` + t.Format("2 January 2006") + `</time>`) //nolint:gosec // digits and month names
}
