package verbs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReconcileListsDifferences(t *testing.T) {
	const compared = `{"customers":2,"subscriptions":3,"failed":0,"differences":[` +
		`{"account":"acc_1","subscription":"sub_1","field":"cancelAtPeriodEnd","had":"false","has":"true","healed":true},` +
		`{"account":"acc_2","subscription":"sub_2","field":"exists","had":"true","has":"false","healed":false}]}`
	response := compared
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "POST /operator/v1/billing/reconcile", r.Method+" "+r.URL.Path)
		_, _ = w.Write([]byte(response))
	}))
	t.Cleanup(admin.Close)
	out, _, err := verb(t, admin.URL, "", "billing", "reconcile")
	require.NoError(t, err)
	require.Equal(t, ""+
		"ACCOUNT  SUBSCRIPTION  FIELD              HAD    HAS    HEALED\n"+
		"acc_1    sub_1         cancelAtPeriodEnd  false  true   yes\n"+
		"acc_2    sub_2         exists             true   false  no\n"+
		"\ncompared 3 subscriptions of 2 customers: 2 differences, 1 healed; 0 could not be compared\n", out)
	out, _, err = verb(t, admin.URL, "", "billing", "reconcile", "--output", "json")
	require.NoError(t, err)
	require.JSONEq(t, compared, out)

	response = `{"customers":2,"subscriptions":2,"failed":1,"differences":[]}`
	out, _, err = verb(t, admin.URL, "", "billing", "reconcile")
	require.ErrorContains(t, err, "some subscriptions could not be compared")
	require.Equal(t, "compared 2 subscriptions of 2 customers: 0 differences, 0 healed; 1 could not be compared\n", out)
}
