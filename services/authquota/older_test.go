package authquota_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
)

// olderLine returns an import line for the key. fields override its values.
func olderLine(key string, fields map[string]any) string {
	line := map[string]any{
		"sha256": string(apikey.OlderOf(key)), "prefix": "jb-", "lastFour": key[len(key)-4:], "useCase": "an older use",
		"tier": "developer", "expiresAt": "2027-06-01T00:00:00Z",
	}
	for name, value := range fields {
		line[name] = value
	}
	encoded, _ := json.Marshal(line)
	return string(encoded)
}

func (s *service) importKeys(lines ...string) api.ImportReport {
	s.t.Helper()
	return servicetest.Read[api.ImportReport](s.do(http.MethodPost, "/operator/v1/keys/import", strings.Join(lines, "\n")))
}

func (s *service) olderPrincipal(key string, peppers ...[]byte) api.Principal {
	s.t.Helper()
	if len(peppers) == 0 {
		peppers = [][]byte{pepper}
	}
	return servicetest.Read[api.Principal](s.do(http.MethodPost, "/internal/v1/principals", api.PrincipalQuery{Digests: apikey.OlderOf(key).Digests(peppers)}))
}

const (
	olderKey  = "jb-4711-an-older-key-9x2Q"
	olderKey2 = "jb-4712-an-older-key-7y3R"
)

func at(now time.Time) func(*authquota.Config) {
	return func(c *authquota.Config) { c.Now = func() time.Time { return now } }
}

func TestOlderKeysAreImportedByHash(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, at(now))
		first := olderLine(olderKey, map[string]any{"name": "Job board"})
		require.Empty(t, cmp.Diff(api.ImportReport{Applied: true, Created: 2, Rejected: []api.RejectedLine{}},
			svc.importKeys(first, "", olderLine(olderKey2, map[string]any{"tier": "free", "sha256": strings.ToUpper(string(apikey.OlderOf(olderKey2)))}))))

		p := svc.olderPrincipal(olderKey)
		require.Equal(t, api.Developer, p.Tier)
		require.Equal(t, time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC), p.ExpiresAt)
		require.NotEqual(t, p.Account, svc.olderPrincipal(olderKey2).Account, "an account for each")
		keys := svc.listKeys("?account=" + p.Account)
		require.Len(t, keys, 1)
		require.Equal(t, "jb-", keys[0].Prefix)
		require.Equal(t, "9x2Q", keys[0].LastFour)
		require.Equal(t, "Job board", keys[0].Name)
		require.Equal(t, "an older use", keys[0].UseCase)

		servicetest.Read[listedKey](svc.revoke(p.Key))
		require.Empty(t, cmp.Diff(api.ImportReport{Applied: true, Unchanged: 1, Rejected: []api.RejectedLine{}}, svc.importKeys(first)), "again")
		require.NotNil(t, svc.olderPrincipal(olderKey).RevokedAt, "what was revoked stays so")
		svc.stop()

		newer := []byte("the pepper that comes after it..")
		svc = s.start(t, at(now.AddDate(1, 0, 0)), func(c *authquota.Config) {
			c.Peppers = []string{hex.EncodeToString(newer), hex.EncodeToString(pepper)}
		})
		require.Equal(t, 1, svc.importKeys(first).Unchanged, "after the pepper changed, and its life is over")
		require.Equal(t, p.Key, svc.olderPrincipal(olderKey, newer, pepper).Key)
		require.Len(t, svc.listKeys(""), 2)
	})
}

func TestAnImportWarnsOfKeysThatTheGatewayRejects(t *testing.T) {
	s := localStores(t)
	now := at(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	svc := s.start(t, now)
	report := svc.importKeys(olderLine(olderKey, nil), olderLine("sk-1234", map[string]any{"prefix": "sk-"}))
	require.True(t, report.Applied)
	require.Equal(t, []string{
		"the gateway rejects the keys on these lines because their prefix does not fit OPPORTUNITY_OLDER_KEYS: 2",
	}, report.Warnings)
	svc.stop()

	svc = s.start(t, now, func(c *authquota.Config) { c.OlderKeys = "" })
	require.Empty(t, svc.importKeys().Warnings, "no keys")
	require.Equal(t, []string{
		"the gateway rejects these keys because OPPORTUNITY_OLDER_KEYS is not set: set it to the form of the keys, for the gateway and authquota",
	}, svc.importKeys(olderLine(olderKey, nil)).Warnings, "also of known keys")
}

func TestAnImportWithABadLineChangesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t, at(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)))
		report := svc.importKeys(
			olderLine(olderKey, nil),
			olderLine(olderKey, nil),
			olderLine(olderKey2, map[string]any{"sha256": olderKey2, "prefix": "oda_live_", "lastFour": "12345", "tier": "gold", "useCase": " ", "name": strings.Repeat("x", 61)}),
			`{"sha256":`,
			olderLine(olderKey2, map[string]any{"key": olderKey2}),
			olderLine(olderKey2, map[string]any{"expiresAt": nil}),
		)
		require.False(t, report.Applied)
		require.Len(t, report.Rejected, 5)
		require.Equal(t, api.RejectedLine{Line: 2, Problems: apitest.Problems("sha256: is on line 1 already")}, report.Rejected[0])
		require.Equal(t, 3, report.Rejected[1].Line)
		require.Empty(t, cmp.Diff(apitest.Problems(
			"sha256: must be the SHA-256 of the key in hexadecimal, 64 characters",
			"prefix: must not be that of the keys that are issued here",
			"lastFour: must be the last four characters of the key",
			"name: must have at most 60 characters",
			"useCase: must not be empty",
			"tier: must be one of free, developer, commercial",
		), report.Rejected[1].Problems))

		report = svc.importKeys(olderLine(olderKey, nil),
			olderLine(olderKey2, map[string]any{"expiresAt": "2026-11-20T10:00:00Z"}),
			olderLine(olderKey2+"+", map[string]any{"expiresAt": "2027-11-20T10:00:01Z"}))
		require.False(t, report.Applied)
		require.Zero(t, report.Created)
		require.Len(t, report.Rejected, 2)
		require.Equal(t, api.RejectedLine{Line: 2, Problems: apitest.Problems("expiresAt: must be in the future, at most 365 days from now")}, report.Rejected[0])
		require.Empty(t, svc.listKeys(""))
		require.Empty(t, svc.listAccounts())
		svc.do(http.MethodPost, "/operator/v1/keys/import?x=1", "").RequireError(problem.UnknownParameter)
		require.Equal(t, []api.RejectedLine{{Line: 1, Problems: apitest.Problems("the file is empty")}}, svc.importKeys().Rejected)
	})
}
