package pages

import (
	"context"
	"fmt"
	"io"
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// Renewals replaces the recovery codes of an account.
type Renewals interface {
	RenewCodes(ctx context.Context, accountID string, hashes []string) error
}

// UnusedCodes reads the recovery codes of an account.
type UnusedCodes interface {
	// CodesUnused reports whether all hashes are those of unused codes of the account.
	CodesUnused(ctx context.Context, accountID string, hashes []string) (bool, error)
}

// codesView is the data of the page. It has the codes only just after they were created.
type codesView struct {
	Codes []string
	First bool // created with the authenticator
	Email string
	Left  int
}

// newCodesPage returns the page that shows new codes once. first is set for the codes that come with an authenticator.
func newCodesPage(v *site.Visit, codes []string, first bool) site.View {
	return site.View{
		Template: "recovery-codes", Title: "Your recovery codes", Data: codesView{Codes: codes, First: first, Email: v.Person.Email},
	}
}

func (p *Pages) codesForm(v *site.Visit) (site.View, error) {
	return site.View{Template: "recovery-codes", Title: "Recovery codes", Data: codesView{Left: v.Person.RecoveryCodesLeft}}, nil
}

// renewCodes creates new codes and shows them once.
func (p *Pages) renewCodes(v *site.Visit) (site.View, error) {
	codes, hashes := people.NewRecoveryCodes()
	err := p.Renewals.RenewCodes(v.Request.Context(), v.Person.Account, hashes)
	return newCodesPage(v, codes, false), err
}

// downloadCodes returns the codes of the form as a file. Only their hashes are stored, so the page that shows them sends them back.
func (p *Pages) downloadCodes(v *site.Visit) (site.View, error) {
	codes := v.PostFormArray("code")
	hashes := make([]string, len(codes))
	for i, c := range codes {
		hashes[i] = people.HashRecoveryCode(c)
	}
	unused, err := false, error(nil)
	if len(codes) == people.RecoveryCodeCount {
		unused, err = p.UnusedCodes.CodesUnused(v.Request.Context(), v.Person.Account, hashes)
	}
	if err == nil && !unused {
		err = problem.New(problem.InvalidParameter, "These recovery codes are no longer valid. Create new ones on the security page.")
	}
	return site.View{
		Type: "text/plain; charset=utf-8", Name: "opportunity-recovery-codes.txt",
		Stream: func(w io.Writer) error { return writeCodes(w, v.Person.Email, codes, v.Now) },
	}, err
}

func writeCodes(w io.Writer, email string, codes []string, now time.Time) error {
	_, err := fmt.Fprintf(w, "Recovery codes of the Opportunity Data API\r\nAccount: %s\r\nDownloaded: %s\r\n\r\n"+
		"Each code signs you in once if you do not have your authenticator.\r\n\r\n", email, now.Format("2 January 2006, 15:04 UTC"))
	for i, c := range codes {
		if err == nil {
			_, err = fmt.Fprintf(w, "%2d. %s\r\n", i+1, c)
		}
	}
	return err
}
