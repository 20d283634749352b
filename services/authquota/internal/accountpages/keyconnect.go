package accountpages

import (
	"errors"
	"fmt"
	"strings"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/people"
)

func (p *Pages) askConnect(*Visit) (pages.View, error) {
	return pages.View{Template: "key-connect", Title: "Connect an older key"}, nil
}

// maxPresented is far above the length of any key.
const maxPresented = 500

// connectKey merges the account of the presented key. The input is never repeated in the response.
func (p *Pages) connectKey(v *Visit) (pages.View, error) {
	presented := strings.TrimSpace(v.PostForm("key"))
	again, _ := p.askConnect(v)
	if presented == "" || len(presented) > maxPresented {
		return again.Wrong("key", "Paste the whole key, from its first character to its last."), nil
	}
	// Limit guesses: a key of another form may be short.
	if wait, err := p.People.CountAttempt(v.Request.Context(), people.AttemptsToConnect(v.Person.Account)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	digests := apikey.OlderOf(presented).Digests(p.Peppers)
	if ours, ok := apikey.Parse(presented); ok {
		digests = ours.Digests(p.Peppers)
	}
	moved, err := p.Keys.Connect(v.Request.Context(), v.Person.Account, digests)
	switch problem.Of(err).Code {
	case problem.NotFound:
		return again.Wrong("key", "This key is unknown. Check that you copied all of it."), nil
	case problem.InvalidParameter:
		return again.Wrong("key", problem.Of(err).Text()), nil
	}
	if err == nil {
		err = p.MoveUsage(v.Request.Context(), v.Person.Account)
		if err != nil {
			err = errors.Join(accountdb.ErrNotInEffect, err)
		}
	}
	notice, err := applied(connected(moved), err)
	return pages.View{Redirect: keysPath, Notice: notice}, err
}

func connected(n int) string {
	switch n {
	case 1:
		return "The key is connected. Requests sent with it today count toward your daily quota."
	case 2:
		return "The key and one other of its account are connected. Requests sent with them today count toward your daily quota."
	}
	return fmt.Sprintf("The key and %d others of its account are connected. Requests sent with them today count toward your daily quota.", n-1)
}
