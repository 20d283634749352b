package pages

import (
	"context"
	"fmt"
	"strings"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// Connections connects keys. Errors are problem.Errors with a message for people.
type Connections interface {
	// Connect merges the account of the key with one of these digests and returns how many keys moved.
	Connect(ctx context.Context, accountID string, digests []string) (keys int, err error)
}

func (p *Pages) askConnect(*site.Visit) (site.View, error) {
	return site.View{Template: "key-connect", Title: "Connect an older key"}, nil
}

// maxPresented is far above the length of any key.
const maxPresented = 500

// connectKey merges the account of the presented key. The input is never repeated in the response.
func (p *Pages) connectKey(v *site.Visit) (site.View, error) {
	presented := strings.TrimSpace(v.PostForm("key"))
	again, _ := p.askConnect(v)
	if presented == "" || len(presented) > maxPresented {
		return again.Wrong("key", "Paste the whole key, from its first character to its last."), nil
	}
	// Limit guesses: a key of another form may be short.
	if wait, err := p.Attempts.CountAttempt(v.Request.Context(), people.AttemptsToConnect(v.Person.Account)); err != nil || wait > 0 {
		return site.TooMany(v, again, wait), err
	}
	digests := apikey.OlderOf(presented).Digests(p.Peppers)
	if ours, ok := apikey.Parse(presented); ok {
		digests = ours.Digests(p.Peppers)
	}
	keys, err := p.Connections.Connect(v.Request.Context(), v.Person.Account, digests)
	switch problem.Of(err).Code {
	case problem.NotFound:
		return again.Wrong("key", "This key is unknown. Check that you copied all of it."), nil
	case problem.InvalidParameter:
		return again.Wrong("key", problem.Of(err).Message), nil
	}
	if err != nil {
		return site.View{}, err
	}
	what := "The key is connected"
	switch {
	case keys == 2:
		what = "The key and one other of its account are connected"
	case keys > 2:
		what = fmt.Sprintf("The key and %d others of its account are connected", keys-1)
	}
	return site.View{Redirect: site.Keys, Notice: p.Apply.Notice(v, what+". Their usage today now counts for your account.")}, nil
}
