package stripe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/stripe"
)

// nested changes responses of the sandbox as Stripe responds for long lists in an object: the
// object has only the first ten elements. The element of the sandbox is the last one of 120.
type nested struct {
	sandbox http.RoundTripper
	others  map[string]any // an element by the name of its list
	last    map[string]any
	status  int // of the pages, if not 200
}

func (n *nested) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/lines"):
		return n.page("lines", r), nil
	case r.URL.Path == "/v1/subscription_items":
		return n.page("items", r), nil
	}
	response, err := n.sandbox.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	var body any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return nil, err
	}
	n.shorten(body)
	return responseOf(response.StatusCode, body), nil
}

// shorten takes the only element out of each nested list.
func (n *nested) shorten(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			n.shorten(inner)
			if other := n.others[name]; other != nil {
				n.last[name] = inner.(map[string]any)["data"].([]any)[0]
				value[name] = map[string]any{"object": "list", "has_more": true, "data": repeated(other, 0, 10)}
			}
		}
	case []any:
		for _, inner := range value {
			n.shorten(inner)
		}
	}
}

func (n *nested) page(name string, r *http.Request) *http.Response {
	if n.status != 0 {
		return responseOf(n.status, map[string]any{"error": map[string]any{"type": "api_error"}})
	}
	list := map[string]any{"object": "list", "has_more": true, "data": repeated(n.others[name], 0, 100)}
	if r.URL.Query().Get("starting_after") == "id99" {
		list["has_more"], list["data"] = false, append(repeated(n.others[name], 100, 119), n.last[name])
	}
	return responseOf(http.StatusOK, list)
}

func repeated(element any, from, to int) (all []any) {
	for i := from; i < to; i++ {
		all = append(all, map[string]any{"id": fmt.Sprintf("id%d", i), "parent": element})
	}
	return all
}

func responseOf(status int, body any) *http.Response {
	text, _ := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}
}

func TestNestedListsAreReadToTheEnd(t *testing.T) {
	for _, name := range []string{"lines", "items"} {
		s, fake := start(t)
		id, _ := buy(t, s, fake)
		fake.Cancel(id, true)
		want, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, api.Commercial, want.Tier)
		require.Equal(t, now.AddDate(0, 1, 0), want.Paid.Until)

		transport := &nested{
			sandbox: sandbox.Transport{API: fake}, last: map[string]any{},
			others: map[string]any{name: map[string]any{"type": "invoice_item_details"}},
		}
		paged := stripe.New(fake.Config(), stripe.Options{Transport: transport})
		got, err := paged.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, got, name)

		transport.status = http.StatusInternalServerError
		_, err = paged.Subscription(t.Context(), id)
		require.ErrorAs(t, err, new(*problem.Error), "an outage, so that the event is sent again")
	}
}
