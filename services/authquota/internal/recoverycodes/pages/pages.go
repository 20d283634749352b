// Package pages holds the page of the recovery codes. The codes are shown once, in the response to the form that creates them, where
// they can be copied, printed and downloaded.
package pages

import (
	"context"
	"embed"
	"fmt"
	"io"
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people/recovery"
	"opportunity.internal/services/authquota/internal/site"
)

// Renewals replaces the recovery codes of an account.
type Renewals interface {
	RenewCodes(ctx context.Context, accountID string, hashes []string) error
}

// Codes reads the recovery codes of an account.
type Codes interface {
	// Unused reports whether all hashes are those of unused codes of the account.
	Unused(ctx context.Context, accountID string, hashes []string) (bool, error)
}

// Pages holds the dependencies of the pages.
type Pages struct {
	Renewals Renewals
	Codes    Codes
}

//go:embed templates
var templates embed.FS

// Feature returns the pages with their access levels.
func (p *Pages) Feature() site.Feature {
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get("/account/recovery-codes", site.SignedIn, p.form),
		site.Post("/account/recovery-codes", site.Recent, p.renew),
		site.Post("/account/recovery-codes/download", site.SignedIn, p.download),
	}}
}

// codesView is the data of the page. It has the codes only just after they were created.
type codesView struct {
	Codes []string
	First bool // created with the authenticator
	Email string
	Left  int
}

// New returns the page that shows new codes once. first is set for the codes that come with an authenticator.
func New(v *site.Visit, codes []string, first bool) site.View {
	return site.View{
		Template: "recovery-codes", Title: "Your recovery codes", Data: codesView{Codes: codes, First: first, Email: v.Person.Email},
	}
}

func (p *Pages) form(v *site.Visit) (site.View, error) {
	return site.View{Template: "recovery-codes", Title: "Recovery codes", Data: codesView{Left: v.Person.RecoveryCodesLeft}}, nil
}

// renew creates new codes and shows them once.
func (p *Pages) renew(v *site.Visit) (site.View, error) {
	codes, hashes := recovery.NewSet()
	err := p.Renewals.RenewCodes(v.Request.Context(), v.Person.Account, hashes)
	return New(v, codes, false), err
}

// download returns the codes of the form as a file. Only their hashes are stored, so the page that shows them sends them back.
func (p *Pages) download(v *site.Visit) (site.View, error) {
	codes := v.PostFormArray("code")
	hashes := make([]string, len(codes))
	for i, c := range codes {
		hashes[i] = recovery.Hash(c)
	}
	unused, err := false, error(nil)
	if len(codes) == recovery.Count {
		unused, err = p.Codes.Unused(v.Request.Context(), v.Person.Account, hashes)
	}
	if err == nil && !unused {
		err = problem.New(problem.InvalidParameter, "These recovery codes are no longer valid. Create new ones on the security page.")
	}
	return site.View{
		Type: "text/plain; charset=utf-8", Name: "opportunity-recovery-codes.txt",
		Stream: func(w io.Writer) error { return write(w, v.Person.Email, codes, v.Now) },
	}, err
}

func write(w io.Writer, email string, codes []string, now time.Time) error {
	_, err := fmt.Fprintf(w, "Recovery codes of the Opportunity Data API\r\nAccount: %s\r\nDownloaded: %s\r\n\r\n"+
		"Each code signs you in once if you do not have your authenticator.\r\n\r\n", email, now.Format("2 January 2006, 15:04 UTC"))
	for i, c := range codes {
		if err == nil {
			_, err = fmt.Fprintf(w, "%2d. %s\r\n", i+1, c)
		}
	}
	return err
}
