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

	"opportunity.internal/pkg/problem"
)

// nested changes responses of the fake as Stripe responds for long lists in an object: the object
// has only the first ten elements. The element of the fake is the last one of 120.
type nested struct {
	fake   *fake
	others object // an element by the name of its list
	last   object
	status int // of the pages, if not 200
}

func (n *nested) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/lines"):
		return n.page("lines", r), nil
	case r.URL.Path == "/v1/subscription_items":
		return n.page("items", r), nil
	}
	response, err := n.fake.RoundTrip(r)
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
	case object:
		for name, inner := range value {
			n.shorten(inner)
			if other := n.others[name]; other != nil {
				n.last[name] = inner.(object)["data"].([]any)[0]
				value[name] = object{"object": "list", "has_more": true, "data": repeated(other, 0, 10)}
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
		return responseOf(n.status, object{"error": object{"type": "api_error"}})
	}
	list := object{"object": "list", "has_more": true, "data": repeated(n.others[name], 0, 100)}
	if r.URL.Query().Get("starting_after") == "id99" {
		list["has_more"], list["data"] = false, append(repeated(n.others[name], 100, 119), n.last[name])
	}
	return responseOf(http.StatusOK, list)
}

func repeated(element any, from, to int) (all []any) {
	for i := from; i < to; i++ {
		all = append(all, object{"id": fmt.Sprintf("id%d", i), "parent": element})
	}
	return all
}

type roundTripper func(*http.Request) *http.Response

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return r(request), nil
}

func responseOf(status int, body any) *http.Response {
	text, _ := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}
}

func TestNestedListsAreReadToTheEnd(t *testing.T) {
	for _, name := range []string{"lines", "items"} {
		s, f := start()
		f.subscription["cancel_at"] = now.AddDate(0, 1, 0).Unix()
		want, err := s.Subscription(t.Context(), "sub_1")
		require.NoError(t, err)

		transport := &nested{
			fake: f, last: object{},
			others: object{name: object{"type": "invoice_item_details"}},
		}
		paged := client(transport, &f.log)
		got, err := paged.Subscription(t.Context(), "sub_1")
		require.NoError(t, err)
		require.Equal(t, want, got, name)

		transport.status = http.StatusInternalServerError
		_, err = paged.Subscription(t.Context(), "sub_1")
		require.ErrorAs(t, err, new(*problem.Error), "an outage, so that the event is sent again")
	}
}
