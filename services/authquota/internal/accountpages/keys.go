package accountpages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// keyLine is a key on a page.
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

// Label returns the status of the key for display.
func (k keyLine) Label() string {
	switch {
	case k.InGrace():
		return "Replaced"
	case k.Status == keys.Active:
		return "Active"
	case k.Status == keys.Expired:
		return "Expired"
	}
	return "Revoked"
}

// Tone returns the CSS class of the status badge.
func (k keyLine) Tone() string {
	switch {
	case k.InGrace():
		return "warn"
	case k.Status == keys.Active:
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
	ctx, id := v.Request.Context(), v.Person.Account
	own, err := p.Keys.OwnKeys(ctx, id)
	if err != nil {
		return pages.View{}, err
	}
	requests, err := p.Keys.OwnRequests(ctx, id)
	if err != nil {
		return pages.View{}, err
	}
	sent, err := p.Usage.SentOn(ctx, id, v.Now)
	if err != nil {
		return pages.View{}, err
	}
	list := keyList{Requests: requests, Most: keys.MaxActive}
	for _, r := range requests {
		if r.State.Open() {
			list.Taken++
		}
	}
	for _, k := range own {
		line := keyLine{k, k.StatusAt(v.Now), sent[k.ID], replacing(own, k.ID, v.Now)}
		if k.Counts(v.Now) {
			list.Taken++
		}
		if line.Status == keys.Active {
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
	return pages.View{Template: "keys", Title: "Keys", Data: list}, nil
}

func place(k keyLine) int {
	if k.InGrace() {
		return 1
	}
	return 0
}

func (p *Pages) ownKey(v *Visit) (keyLine, error) {
	if err := keys.CheckID(v.Param("key")); err != nil {
		return keyLine{}, err
	}
	k, err := p.Keys.OwnKey(v.Request.Context(), v.Person.Account, v.Param("key"))
	if err != nil {
		return keyLine{}, err
	}
	own, err := p.Keys.OwnKeys(v.Request.Context(), v.Person.Account)
	if err != nil {
		return keyLine{}, err
	}
	sent, err := p.Usage.SentOn(v.Request.Context(), v.Person.Account, v.Now)
	return keyLine{k, k.StatusAt(v.Now), sent[k.ID], replacing(own, k.ID, v.Now)}, err
}

// replacing reports whether the key with an id replaced one of own that still works.
func replacing(own []keys.Key, id string, now time.Time) bool {
	return slices.ContainsFunc(own, func(k keys.Key) bool { return k.Successor == id && k.StatusAt(now) == keys.Active })
}

// keyForm is the data of the page of one key, with the submitted name.
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
	err = p.Keys.Rename(v.Request.Context(), v.Person.Account, k.ID, name)
	return pages.View{Redirect: "/account/keys/" + k.ID, Notice: "The key was renamed."}, err
}

func badName(name string, err error) string {
	if strings.TrimSpace(name) == "" {
		return fmt.Sprintf("Enter a name of at most %d characters.", keys.MaxName)
	}
	return labeled("The name", err)
}

// labeled returns the message of an error, with the label of the field instead of its path.
func labeled(label string, err error) string {
	if wrong := problem.Of(err); wrong.Code == problem.InvalidParameter && wrong.Path != "" {
		return label + " " + wrong.Message + "."
	}
	return problem.Of(err).Text()
}

func (p *Pages) askRevoke(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	return pages.View{Template: "key-revoke", Title: "Revoke " + k.Title(), Data: k}, err
}

func (p *Pages) revokeKey(v *Visit) (pages.View, error) {
	if err := keys.CheckID(v.Param("key")); err != nil {
		return pages.View{}, err
	}
	k, err := p.Keys.RevokeOwn(v.Request.Context(), v.Person.Account, v.Param("key"))
	notice, err := applied(k.Title()+" was revoked. Requests with it are rejected from now on.", err)
	return pages.View{Redirect: keysPath, Notice: notice}, err
}
