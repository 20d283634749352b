package accountpages

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/people"
)

type keyLine struct {
	keys.Key

	Status keys.Status
	Today  keyusage.Figures
	Fresh  bool // it replaced a key that still works, so pages do not offer to rotate it
}

// InGrace reports whether the key is in its grace period after a rotation.
func (k keyLine) InGrace() bool { return k.Status == keys.Active && k.ReplacedAt != nil }

// Ready reports whether the key can be rotated.
func (k keyLine) Ready() bool { return k.Status == keys.Active && k.ReplacedAt == nil }

// Badge is a status of a key for display, with its CSS class.
type Badge struct{ Label, Tone string }

// Badge returns the badge of the key.
func (k keyLine) Badge() Badge {
	if k.InGrace() {
		return Badge{"Replaced", "warn"}
	}
	return map[keys.Status]Badge{
		keys.Active:  {"Active", "good"},
		keys.Expired: {"Expired", ""},
		keys.Revoked: {"Revoked", ""},
	}[k.Status]
}

// Soon reports whether the key expires so soon that its holder should act.
func (k keyLine) Soon(now time.Time) bool {
	return k.Ready() && k.ExpiresAt.Before(now.AddDate(0, 0, 30))
}

type keyList struct {
	Requests []keys.Request
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

func (p *Pages) listKeys(v *Visit) (pages.View, error) {
	lines, err := p.ownKeys(v)
	if err != nil {
		return pages.View{}, err
	}
	requests, err := p.Keys.OwnRequests(v.ctx(), v.Person.Account)
	list := keyList{Requests: requests, Most: keys.MaxActive}
	for _, r := range requests {
		if r.State.Open() {
			list.Taken++
		}
	}
	var grace []keyLine // shown last
	for _, line := range lines {
		switch {
		case line.Ready():
			list.Taken++
			list.Living = append(list.Living, line)
		case line.InGrace():
			grace = append(grace, line)
		default:
			list.Ended = append(list.Ended, line)
		}
	}
	list.Living = append(list.Living, grace...)
	slices.Reverse(list.Ended)
	if list.Older = len(list.Ended) - endedShown; list.Older > 0 {
		list.Ended = list.Ended[:endedShown]
	}
	return pages.View{Template: "keys", Title: "Keys", Data: list}, err
}

func (p *Pages) ownKeys(v *Visit) ([]keyLine, error) {
	own, err := p.Keys.OwnKeys(v.ctx(), v.Person.Account)
	if err != nil {
		return nil, err
	}
	sent, err := p.Usage.SentOn(v.ctx(), v.Person.Account, v.Now)
	lines := make([]keyLine, len(own))
	for i, k := range own {
		fresh := slices.ContainsFunc(own, func(old keys.Key) bool {
			return old.Successor == k.ID && old.StatusAt(v.Now) == keys.Active
		})
		lines[i] = keyLine{k, k.StatusAt(v.Now), sent[k.ID], fresh}
	}
	return lines, err
}

func (p *Pages) ownKey(v *Visit) (keyLine, error) {
	own, err := p.ownKeys(v)
	if err != nil {
		return keyLine{}, err
	}
	at := slices.IndexFunc(own, func(k keyLine) bool { return k.ID == v.Param("key") })
	if at < 0 {
		return keyLine{}, problem.NoSuch("key")
	}
	return own[at], nil
}

type keyForm struct {
	Key  keyLine
	Name string
}

func (p *Pages) showKey(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	return pages.View{Template: "key", Title: k.Title(), Data: keyForm{k, k.Name}}, err
}

func (p *Pages) renameKey(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	if err != nil {
		return pages.View{}, err
	}
	name, err := keys.Name(v.PostForm("name"))
	if err != nil {
		form := pages.View{Template: "key", Title: k.Title(), Data: keyForm{k, v.PostForm("name")}}
		return form.Wrong("name", badName(v.PostForm("name"), err)), nil
	}
	err = p.Keys.Rename(v.ctx(), v.Person.Account, k.ID, name)
	return pages.View{Redirect: "/account/keys/" + k.ID, Notice: "The key was renamed."}, err
}

func badName(name string, err error) string {
	return badText("The name", name, fmt.Sprintf("Enter a name of at most %d characters.", keys.MaxName), err)
}

// badText explains why a text was rejected, with the label of its field instead of its path.
func badText(label, given, ifEmpty string, err error) string {
	wrong := problem.Of(err)
	switch {
	case strings.TrimSpace(given) == "":
		return ifEmpty
	case wrong.Code == problem.InvalidParameter && wrong.Path != "":
		return label + " " + wrong.Message + "."
	}
	return wrong.Text()
}

func (p *Pages) askRevoke(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	return pages.View{Template: "key-revoke", Title: "Revoke " + k.Title(), Data: k}, err
}

func (p *Pages) revokeKey(v *Visit) (pages.View, error) {
	k, err := p.Keys.RevokeOwn(v.ctx(), v.Person.Account, v.Param("key"))
	notice, err := applied(k.Title()+" was revoked. Requests with it are rejected from now on.", err)
	return pages.View{Redirect: keysPath, Notice: notice}, err
}

func (p *Pages) askRotate(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	if err == nil && !k.Ready() {
		err = keys.ErrNotRotatable
	}
	return pages.View{
		Template: "key-rotate", Title: "Rotate " + k.Title(), Data: rotation{k, k.SuccessorEnd(v.Now), k.GraceEnd(v.Now)},
	}, err
}

type rotation struct {
	Key            keyLine
	NewEnd, OldEnd time.Time
}

type newKey struct {
	Key     keys.Key
	Secret  string
	Old     *keys.Key // the key that it replaces
	Pending bool      // the earlier end of Old is recorded but not in effect yet
}

// Curl returns a curl command that sends a request with the key.
func (n newKey) Curl(public string) string {
	return "curl -H 'Authorization: Bearer " + n.Secret + "' '" + public + "/api/v1/opportunities?country=CA'"
}

func (p *Pages) rotateKey(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	if err != nil {
		return pages.View{}, err
	}
	secret, record := keys.Generate(k.Prefix == apikey.Test, p.Peppers)
	successor, old, err := p.Keys.Rotate(v.ctx(), v.Person.Account, k.ID, record)
	pending := errors.Is(err, accountdb.ErrNotInEffect) // the key is shown nevertheless, because it cannot be shown again
	if err != nil && !pending {
		return pages.View{}, err
	}
	return pages.View{
		Template: "key-new", Title: "Your new key", Data: newKey{successor, secret.Reveal(), &old, pending},
	}, nil
}

var connectForm = pages.View{Template: "key-connect", Title: "Connect an older key"}

// maxPresented is far above the length of any key.
const maxPresented = 500

// connectKey merges the account of the presented key. The input is never repeated in the response.
func (p *Pages) connectKey(v *Visit) (pages.View, error) {
	presented := strings.TrimSpace(v.PostForm("key"))
	if presented == "" || len(presented) > maxPresented {
		return connectForm.Wrong("key", "Paste the whole key, from its first character to its last."), nil
	}
	// Limit guesses: a key of another form may be short.
	if wait, err := p.People.CountAttempt(v.ctx(), people.AttemptsToConnect.Of(v.Person.Account)); err != nil || wait > 0 {
		return connectForm.TooMany(wait), err
	}
	digests := apikey.OlderOf(presented).Digests(p.Peppers)
	if ours, ok := apikey.Parse(presented); ok {
		digests = ours.Digests(p.Peppers)
	}
	moved, err := p.Keys.Connect(v.ctx(), v.Person.Account, digests)
	switch problem.Of(err).Code {
	case problem.NotFound:
		return connectForm.Wrong("key", "This key is unknown. Check that you copied all of it."), nil
	case problem.InvalidParameter:
		return connectForm.Wrong("key", problem.Of(err).Text()), nil
	}
	if err == nil {
		err = p.Counters.DeliverMoves(v.ctx(), v.Person.Account)
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
		return "The key and one other of its account are connected. Requests sent with them today count toward your daily " +
			"quota."
	}
	return fmt.Sprintf(
		"The key and %d others of its account are connected. Requests sent with them today count toward your daily quota.",
		n-1)
}
