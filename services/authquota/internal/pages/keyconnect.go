package pages

import (
	"fmt"
	"strings"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/throttle"
)

func (s *Site) askConnect(*visit) (view, error) {
	return view{Template: "key-connect", Title: "Connect an older key"}, nil
}

// maxPresented is far above the length of any key.
const maxPresented = 500

// connectKey merges the account of the presented key. The input is never repeated in the response.
func (s *Site) connectKey(v *visit) (view, error) {
	presented := strings.TrimSpace(v.PostForm("key"))
	again := view{Template: "key-connect", Title: "Connect an older key"}
	if presented == "" || len(presented) > maxPresented {
		again.Errors = []formError{{"key", "Paste the whole key, from its first character to its last."}}
		return again, nil
	}
	// Limit guesses: a key of another form may be short.
	if wait, err := s.Tries.Try(v.Request.Context(), throttle.KeysFor(v.Person.Account)); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	digests := apikey.OlderOf(presented).Digests(s.Peppers)
	if ours, ok := apikey.Parse(presented); ok {
		digests = ours.Digests(s.Peppers)
	}
	keys, err := s.KeyLives.Connect(v.Request.Context(), v.Person.Account, digests)
	switch problem.Of(err).Code {
	case problem.NotFound:
		again.Errors = []formError{{"key", "This key is unknown. Check that you copied all of it."}}
		return again, nil
	case problem.InvalidParameter:
		again.Errors = []formError{{"key", problem.Of(err).Message}}
		return again, nil
	}
	if err != nil {
		return view{}, err
	}
	what := "The key is connected"
	switch {
	case keys == 2:
		what = "The key and one other of its account are connected"
	case keys > 2:
		what = fmt.Sprintf("The key and %d others of its account are connected", keys-1)
	}
	return view{Redirect: "/account/keys", Notice: s.applied(v, what+". Their usage today now counts for your account.")}, nil
}
