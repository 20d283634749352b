package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/usage"
)

// Keys stores the keys of a person's account. Keys of other accounts are not_found.
type Keys interface {
	OwnKeys(ctx context.Context, accountID string) ([]account.Key, error)
	OwnKey(ctx context.Context, accountID, key string) (account.Key, error)
	// Rename sets the valid name of a key.
	Rename(ctx context.Context, accountID, key, name string) error
	// SentOn returns the requests of each key on a UTC day.
	SentOn(ctx context.Context, accountID string, day time.Time) (map[string]usage.Figures, error)
}

// KeyLives rotates, revokes and connects keys. Errors are problem.Errors with a message for people.
type KeyLives interface {
	Rotate(ctx context.Context, accountID, key string, stored account.KeyRecord) (successor, old account.Key, err error)
	RevokeOwn(ctx context.Context, accountID, key string) (account.Key, error)
	// Connect merges the account of the key with one of these digests and returns how many keys moved.
	Connect(ctx context.Context, accountID string, digests []string) (keys int, err error)
}

// keyLine is a key on a page.
type keyLine struct {
	account.Key

	Status account.Status
	Today  usage.Figures
}

// InGrace reports whether the key is in its grace period after a rotation.
func (k keyLine) InGrace() bool { return k.Status == account.Active && k.ReplacedAt != nil }

// Ready reports whether the key can be rotated.
func (k keyLine) Ready() bool { return k.Status == account.Active && k.ReplacedAt == nil }

// Label returns the status of the key for display.
func (k keyLine) Label() string {
	switch {
	case k.InGrace():
		return "Replaced"
	case k.Status == account.Active:
		return "Active"
	case k.Status == account.Expired:
		return "Expired"
	}
	return "Revoked"
}

// Tone returns the CSS class of the status badge.
func (k keyLine) Tone() string {
	switch {
	case k.InGrace():
		return "warn"
	case k.Status == account.Active:
		return "good"
	}
	return ""
}

// Soon reports whether the key expires so soon that its holder should act.
func (k keyLine) Soon(now time.Time) bool {
	return k.Ready() && k.ExpiresAt.Before(now.AddDate(0, 0, 30))
}

// keyList is the data of the page of all keys.
type keyList struct {
	Requests []account.Request
	Living   []keyLine
	Ended    []keyLine // most recent first
	Older    int       // number of further ended keys
	Taken    int
	Most     int
}

// Ends returns how many keys have ended.
func (l keyList) Ends() int { return len(l.Ended) + max(0, l.Older) }

// endedShown limits the ended keys on the page: an account that rotates every day has hundreds.
const endedShown = 50

// Room reports whether another key can be requested.
func (l keyList) Room() bool { return l.Taken < l.Most }

func (s *Site) keys(v *visit) (view, error) {
	ctx, id := v.Request.Context(), v.Person.Account
	keys, err := s.Keys.OwnKeys(ctx, id)
	if err != nil {
		return view{}, err
	}
	requests, err := s.KeyRequests.OwnRequests(ctx, id)
	if err != nil {
		return view{}, err
	}
	sent, err := s.Keys.SentOn(ctx, id, v.now)
	if err != nil {
		return view{}, err
	}
	list := keyList{Requests: requests, Most: account.MaxActive}
	for _, r := range requests {
		if r.State.Open() {
			list.Taken++
		}
	}
	for _, k := range keys {
		line := keyLine{k, k.StatusAt(v.now), sent[k.ID]}
		if k.Counts(v.now) {
			list.Taken++
		}
		if line.Status == account.Active {
			list.Living = append(list.Living, line)
		} else {
			list.Ended = append(list.Ended, line)
		}
	}
	slices.Reverse(list.Ended)
	if list.Older = len(list.Ended) - endedShown; list.Older > 0 {
		list.Ended = list.Ended[:endedShown]
	}
	slices.SortStableFunc(list.Living, func(a, b keyLine) int {
		return cmp.Compare(place(a), place(b)) // keys in their grace period last
	})
	return view{Template: "keys", Title: "Keys", Data: list}, nil
}

func place(k keyLine) int {
	if k.InGrace() {
		return 1
	}
	return 0
}

// ownKey returns the key in the URL.
func (s *Site) ownKey(v *visit) (keyLine, error) {
	if err := account.KnownKey(v.Param("key")); err != nil {
		return keyLine{}, err
	}
	k, err := s.Keys.OwnKey(v.Request.Context(), v.Person.Account, v.Param("key"))
	if err != nil {
		return keyLine{}, err
	}
	sent, err := s.Keys.SentOn(v.Request.Context(), v.Person.Account, v.now)
	return keyLine{k, k.StatusAt(v.now), sent[k.ID]}, err
}

// keyForm is the data of the page of one key, with the submitted name.
type keyForm struct {
	Key  keyLine
	Name string
}

func (s *Site) key(v *visit) (view, error) {
	k, err := s.ownKey(v)
	return view{Template: "key", Title: k.Title(), Data: keyForm{k, k.Name}}, err
}

func (s *Site) renameKey(v *visit) (view, error) {
	k, err := s.ownKey(v)
	if err != nil {
		return view{}, err
	}
	name, err := account.KeyName(v.PostForm("name"))
	if err != nil {
		return view{
			Template: "key", Title: k.Title(), Data: keyForm{k, v.PostForm("name")},
			Errors: []formError{badName(v.PostForm("name"), err)},
		}, nil
	}
	err = s.Keys.Rename(v.Request.Context(), v.Person.Account, k.ID, name)
	return view{Redirect: "/account/keys/" + k.ID, Notice: "The key was renamed."}, err
}

// badName returns the form error for the name of a key.
func badName(name string, err error) formError {
	if strings.TrimSpace(name) == "" {
		return formError{"name", fmt.Sprintf("Enter a name of at most %d characters.", account.MaxName)}
	}
	return wrong("name", "The name", err)
}

// wrong returns the form error for a field, with its label instead of its name.
func wrong(field, label string, err error) formError {
	return formError{field, strings.Replace(problem.Of(err).Message, "Field "+field, label, 1)}
}

func (s *Site) askRotate(v *visit) (view, error) {
	k, err := s.ownKey(v)
	if err == nil && !k.Ready() {
		err = account.NotRotatable()
	}
	return view{Template: "key-rotate", Title: "Rotate " + k.Title(), Data: rotation{k, k.SuccessorEnd(v.now), k.GraceEnd(v.now)}}, err
}

// rotation is the data of the page that confirms a rotation.
type rotation struct {
	Key            keyLine
	NewEnd, OldEnd time.Time
}

// newKey is the data of the page that shows a new key once.
type newKey struct {
	Key     account.Key
	Secret  string
	Old     *account.Key // the key that it replaces
	Pending bool         // the earlier end of Old is recorded but not in effect yet
}

// Curl returns a curl command that sends a request with the key.
func (n newKey) Curl(public string) string {
	return "curl -H 'Authorization: Bearer " + n.Secret + "' '" + public + "/api/v1/opportunities?country=CA'"
}

func (s *Site) rotateKey(v *visit) (view, error) {
	k, err := s.ownKey(v)
	if err != nil {
		return view{}, err
	}
	prefix := apikey.Live
	if k.Prefix == apikey.Test {
		prefix = apikey.Test
	}
	secret := apikey.Generate(prefix)
	successor, old, err := s.KeyLives.Rotate(v.Request.Context(), v.Person.Account, k.ID, account.NewKeyRecord(secret, s.Peppers))
	if err != nil {
		return view{}, err
	}
	// Show the key even if applying the change fails, because it cannot be shown again.
	pending := s.Apply(v.Request.Context(), v.Person.Account) != nil
	return view{Template: "key-new", Title: "Your new key", Data: newKey{successor, secret.Reveal(), &old, pending}}, nil
}

func (s *Site) askRevoke(v *visit) (view, error) {
	k, err := s.ownKey(v)
	return view{Template: "key-revoke", Title: "Revoke " + k.Title(), Data: k}, err
}

func (s *Site) revokeKey(v *visit) (view, error) {
	if err := account.KnownKey(v.Param("key")); err != nil {
		return view{}, err
	}
	k, err := s.KeyLives.RevokeOwn(v.Request.Context(), v.Person.Account, v.Param("key"))
	if err != nil {
		return view{}, err
	}
	return view{Redirect: "/account/keys", Notice: s.applied(v, k.Title()+" was revoked. Requests with it are rejected from now on.")}, nil
}

// applied applies a recorded change and returns text, with a note if the change takes effect later.
func (s *Site) applied(v *visit, text string) string {
	if s.Apply(v.Request.Context(), v.Person.Account) != nil {
		text += " This takes effect shortly: part of our service is temporarily unavailable."
	}
	return text
}
