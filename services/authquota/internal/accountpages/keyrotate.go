package accountpages

import (
	"errors"
	"time"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

func (p *Pages) askRotate(v *Visit) (pages.View, error) {
	k, err := p.ownKey(v)
	if err == nil && !k.Ready() {
		err = keys.NotRotatable()
	}
	return pages.View{Template: "key-rotate", Title: "Rotate " + k.Title(), Data: rotation{k, k.SuccessorEnd(v.Now), k.GraceEnd(v.Now)}}, err
}

// rotation is the data of the page that confirms a rotation.
type rotation struct {
	Key            keyLine
	NewEnd, OldEnd time.Time
}

// newKey is the data of the page that shows a new key once.
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
	prefix := apikey.Live
	if k.Prefix == apikey.Test {
		prefix = apikey.Test
	}
	secret := apikey.Generate(prefix)
	successor, old, err := p.Keys.Rotate(v.Request.Context(), v.Person.Account, k.ID, keys.NewRecord(secret, p.Peppers))
	pending := errors.Is(err, accountdb.ErrNotInEffect) // the key is shown nevertheless, because it cannot be shown again
	if err != nil && !pending {
		return pages.View{}, err
	}
	return pages.View{Template: "key-new", Title: "Your new key", Data: newKey{successor, secret.Reveal(), &old, pending}}, nil
}
