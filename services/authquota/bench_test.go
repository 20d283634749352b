package authquota_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// BenchmarkPages requests the account pages of a running service, for an account that had 10,000
// keys in the last 90 days, with 180,000 of 270,000 rows of usage.
func BenchmarkPages(b *testing.B) {
	for _, name := range []string{"postgres", "sqlite"} {
		b.Run(name, func(b *testing.B) {
			visitor := busyService(b, name)
			for _, path := range []string{"/account", "/account/usage", "/account/usage?days=90", "/account/usage.csv"} {
				b.Run(path[1:], func(b *testing.B) {
					before := testkit.ProcessorTime(b)
					for b.Loop() {
						require.Equal(b, http.StatusOK, visitor.Get(path).Status)
					}
					b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/page")
					b.ReportMetric((testkit.ProcessorTime(b)-before).Seconds()/float64(b.N), "cpu-s/page") // more stable on a busy machine
				})
			}
		})
	}
}

// busyService runs the service on a filled database and returns a browser with a session.
func busyService(b *testing.B, dialect string) *testkit.Browser {
	b.Helper()
	s := map[string]func(testing.TB) *sitekit.Stores{
		"postgres": sitekit.ProductionStores, "sqlite": sitekit.LocalStores,
	}[dialect](b)
	secret := fill(b, testkit.Open(b, s.Database, time.Now))
	visitor := testkit.VisitURL(b, s.Serve(b).URL)
	visitor.Cookies["__Host-session"] = secret
	return visitor
}

// fill writes 15,000 keys: those of the signed-in account, and every third one of a hundred others.
// Each key was used on six days, with three outcomes.
func fill(b *testing.B, db testkit.DB) (secret string) {
	b.Helper()
	exec := func(statement string, args ...any) {
		b.Helper()
		require.NoError(b, db.Exec(statement, args...).Error)
	}
	now := time.Now().UTC()
	at := database.Micros(now)
	person := db.SignUp(b, "ada@example.org")
	mine, others := person.Account, make([]string, 100)
	exec("UPDATE accounts SET tier = 'commercial'")
	for i := range others {
		others[i] = account.NewID()
		exec("INSERT INTO accounts (id, tier, created_at) VALUES (?, 'free', ?)", others[i], at)
	}

	const keyCount = 15_000
	rows := make([]map[string]any, keyCount)
	for i := range rows {
		owner := mine
		if i%3 == 0 {
			owner = others[i%len(others)]
		}
		rows[i] = map[string]any{
			"id": keys.NewID(), "account_id": owner, "digest": fmt.Sprintf("%064x", i), "prefix": "oda_live_",
			"last_four": "abcd",
			"use_case":  "benchmark", "name": fmt.Sprintf("Key %d", i), "created_at": i, "expires_at": at, "last_used_at": at,
		}
	}
	require.NoError(b, db.Table("api_keys").CreateInBatches(rows, 1000).Error)
	for i := range 90 {
		for _, outcome := range []api.CallOutcome{api.CallServed, api.CallNotFound, api.CallMinuteLimitReached} {
			exec(
				"INSERT INTO usage_keys (account_id, day, key_id, outcome, calls) SELECT account_id, ?, id, ?, 1 + created_at FROM "+
					"api_keys WHERE created_at % 15 = ?",
				now.AddDate(0, 0, -i).Format(time.DateOnly), outcome, i%15)
		}
	}
	exec("INSERT INTO usage_outcomes SELECT account_id, day, outcome, SUM(calls) FROM usage_keys GROUP BY 1, 2, 3")
	if db.Dialect == database.Postgres {
		exec("ANALYZE") // as autovacuum does in production
	}
	return person.Session
}
