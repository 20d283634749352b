package catalog_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	catalog "opportunity.internal/services/catalog"
)

func TestMigrateCheckAndServe(t *testing.T) {
	history := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // always ready
	defer history.Close()
	for dialect, url := range storetest.Databases(t) {
		set := map[string]string{
			"OPPORTUNITY_DATABASE_URL": url, "OPPORTUNITY_PEER_TOKENS": strings.Join(servicetest.Tokens(peer.Catalog).Peers,
				","), "OPPORTUNITY_CALLER_TOKENS": strings.Join(servicetest.Callers(peer.Catalog).Tokens, ","),
			"OPPORTUNITY_PUBLIC_URL":  servicetest.PublicURL,
			"OPPORTUNITY_HISTORY_URL": history.URL, "OPPORTUNITY_LOG_LEVEL": "ERROR",
		}
		verb := func(args ...string) error {
			return catalog.Main(t.Context(), func(name string) (string, bool) { v, ok := set[name]; return v, ok },
				args)
		}
		require.ErrorContains(t, verb(), "usage")
		require.Error(t, verb("check"), "the schema is missing")
		require.NoError(t, verb("migrate"))
		require.NoError(t, verb("migrate"), "migrating twice changes nothing")
		if dialect == database.Postgres {
			require.ErrorContains(t, verb("check"), "superuser")
			set["OPPORTUNITY_DATABASE_ALLOW_OWNER"] = "true"
		}
		require.NoError(t, verb("check"))

		set["OPPORTUNITY_HISTORY_URL"] = "http://127.0.0.1:1"
		require.ErrorContains(t, verb("check"), "127.0.0.1:1")
		set["OPPORTUNITY_HISTORY_URL"], set["OPPORTUNITY_PUBLIC_URL"] = "nowhere/", ""
		delete(set, "OPPORTUNITY_PEER_TOKENS")
		delete(set, "OPPORTUNITY_CALLER_TOKENS")
		err := verb("serve")
		for _, name := range []string{"OPPORTUNITY_HISTORY_URL", "OPPORTUNITY_PEER_TOKENS",
			"OPPORTUNITY_CALLER_TOKENS"} {
			require.ErrorContains(t, err, name, "want every invalid setting in one error")
		}
	}
}
