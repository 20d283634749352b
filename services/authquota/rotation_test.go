package authquota_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/migrations"
)

// A successor gets a full life of its own, so holders rotate without an operator: 365 days, or the life that an operator set.
// The old key keeps working for 24 hours, but not past its own expiry.
func TestASuccessorHasAFullLifeOfItsOwn(t *testing.T) {
	const day = 24 * time.Hour
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		svc.importKeys(olderLine(olderKey, map[string]any{"expiresAt": "2027-01-01T00:00:00Z"}))
		b.connect(olderKey).leads("/account/keys")
		_, own := b.obtain("Own")
		limited := svc.issue(map[string]any{"account": b.account, "expiresIn": "720h"})
		full := svc.issue(map[string]any{"account": b.account, "expiresIn": "8760h"})
		imported := svc.olderPrincipal(olderKey)
		ids := map[string]time.Duration{own: 365 * day, limited.ID: 30 * day, full.ID: 365 * day, imported.Key: 365 * day}

		for range 3 { // the life stays with every successor
			clock.move(29*day + 23*time.Hour) // one hour before the shortest ends
			svc.renew(b)
			now, next := clock.Now(), map[string]time.Duration{}
			for id, life := range ids {
				b.get("/account/keys/"+id+"/rotate").shows(http.StatusOK, "is valid until "+now.Add(life).Format("2 January 2006, 15:04 UTC"))
				old := svc.keyByID(id).ExpiresAt
				key, successor := b.secret(b.post("/account/keys/" + id + "/rotate"))
				require.Equal(t, now.Add(life), svc.principal(key).ExpiresAt)
				end := svc.keyByID(id).ExpiresAt
				require.Equal(t, now.Add(min(24*time.Hour, old.Sub(now))), end, "not past its own expiry")
				next[successor] = life
			}
			ids = next
		}
	})
}

func (s *service) keyByID(id string) listedKey {
	s.t.Helper()
	for _, k := range s.listKeys("") {
		if k.ID == id {
			return k
		}
	}
	s.t.Fatalf("no key %s", id)
	panic("unreachable")
}

// With five active keys each of them can be rotated: a replaced key in its grace period does not count.
func TestFiveKeysCanBeRotated(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		for range 5 {
			svc.issue(map[string]any{"account": b.account})
		}
		for _, k := range svc.listKeys("?account=" + b.account) {
			b.secret(b.post("/account/keys/" + k.ID + "/rotate"))
		}
		b.get("/account/keys").shows(http.StatusOK, "5 of 5 keys in use")
	})
}

// Keys from before the migration keep the life that their operator set, even if they were rotated under the earlier rule, which
// kept the expiry of the first key.
func TestTheMigrationFindsTheLifeOfEarlierKeys(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		s.start(t)
		const day = int64(24 * time.Hour / time.Microsecond)
		s.exec(t, "INSERT INTO accounts (id, tier, created_at) VALUES ('acc_1', 'free', 1)")
		for i, k := range []struct {
			id, prefix, successor string
			created, expires      int64
			replaced              any
		}{
			{"key_full", "oda_live_", "", 1, 1 + 365*day, nil},
			{"key_limited", "oda_test_", "", 1, 1 + 30*day, nil},
			{"key_second", "oda_live_", "", 1 + 20*day, 1 + 30*day, nil},
			{"key_first", "oda_live_", "key_second", 1, 1 + 21*day, 1 + 20*day},
			{"key_late", "oda_live_", "", 1 + 300*day, 1 + 365*day, nil},
			{"key_early", "oda_live_", "key_late", 1, 1 + 301*day, 1 + 300*day},
			{"key_imported", "jb-", "", 1, 1 + 40*day, nil},
			{"key_of_imported", "oda_live_", "", 1 + 5*day, 1 + 40*day, nil},
			{"key_imported_first", "jb-", "key_of_imported", 1, 1 + 6*day, 1 + 5*day},
		} {
			s.exec(t, `INSERT INTO api_keys (id, account_id, digest, prefix, last_four, use_case, created_at, expires_at, replaced_at, successor_id)
				VALUES (?, 'acc_1', ?, ?, 'abcd', 'x', ?, ?, ?, ?)`, k.id, fmt.Sprintf("%064x", i),
				k.prefix, k.created, k.expires, k.replaced, optional(k.successor))
		}
		file, err := fs.ReadFile(migrations.Files, "00010_key_life.sql")
		require.NoError(t, err)
		s.exec(t, regexp.MustCompile(`(?s)WITH RECURSIVE.*?;`).FindString(string(file)))
		var lives []struct {
			ID   string
			Days int64
		}
		require.NoError(t, s.open(t).Raw("SELECT id, life / ? AS days FROM api_keys WHERE life IS NOT NULL ORDER BY id", day).Scan(&lives).Error)
		require.Equal(t, []struct {
			ID   string
			Days int64
		}{{"key_limited", 30}, {"key_second", 30}}, lives)
	})
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}
