package accountpages

import (
	"fmt"
	"io"
	"time"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
)

// codesView is the data of the page. It has the codes only just after they were created.
type codesView struct {
	Codes []string
	First bool // created with the authenticator
	Email string
	Left  int
}

// newCodesPage returns the page that shows new codes once. first is set for the codes that come
// with an authenticator.
func newCodesPage(v *Visit, codes []string, first bool) pages.View {
	return pages.View{
		Template: "recovery-codes", Title: "Your recovery codes", Data: codesView{Codes: codes, First: first, Email: v.Person.Email},
	}
}

func (p *Pages) codesForm(v *Visit) (pages.View, error) {
	return pages.View{Template: "recovery-codes", Title: "Recovery codes", Data: codesView{Left: v.Person.RecoveryCodesLeft}}, nil
}

// renewCodes creates new codes and shows them once.
func (p *Pages) renewCodes(v *Visit) (pages.View, error) {
	codes, hashes := people.NewRecoveryCodes()
	err := p.People.RenewCodes(v.Request.Context(), v.Person.Account, hashes)
	return newCodesPage(v, codes, false), err
}

// downloadCodes returns the codes of the form as a file. Only their hashes are stored, so the page
// that shows them sends them back.
func (p *Pages) downloadCodes(v *Visit) (pages.View, error) {
	codes := v.PostFormArray("code")
	hashes := make([]string, len(codes))
	for i, c := range codes {
		hashes[i] = people.HashRecoveryCode(c)
	}
	unused, err := false, error(nil)
	if len(codes) == people.RecoveryCodeCount {
		unused, err = p.People.CodesUnused(v.Request.Context(), v.Person.Account, hashes)
	}
	if err == nil && !unused {
		err = problem.New(problem.InvalidParameter, "These recovery codes are no longer valid. Create new ones on the security page.")
	}
	return pages.View{
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
