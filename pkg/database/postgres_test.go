package database_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
)

// setReadOnly makes new sessions of a database read-only, as those of a standby are, or writable
// again.
func setReadOnly(t *testing.T, address string, value string) {
	t.Helper()
	u := storetest.Must(url.Parse(address))(t)
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	require.NoError(t, open(t,
		u.String()).WithContext(t.Context()).Exec("ALTER DATABASE "+name+" SET default_transaction_read_only = "+value).Error)
}

func TestReadOnlyConnectionLeavesThePool(t *testing.T) {
	address := storetest.Postgres(t)
	setReadOnly(t, address, "on")
	db := single(t, address).WithContext(t.Context())
	err := db.Exec("CREATE TABLE things (id text)").Error
	require.True(t, database.IsUnavailable(err), "%v", err)
	setReadOnly(t, address, "off")
	require.NoError(t, db.Exec("CREATE TABLE things (id text)").Error, "a new connection")
}

// Of several servers, connections go to the one that accepts writes, also if another one accepts
// connections and never replies. Each statement has too little time to wait for that one.
func TestConnectionsGoToTheServerThatAcceptsWrites(t *testing.T) {
	silent := storetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	address := storetest.Postgres(t)
	u := storetest.Must(url.Parse(address))(t)
	u.Host = silent.Addr().String() + "," + u.Host
	migrate(t, database.Config{URL: address})

	db := single(t, u.String())
	write := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return db.WithContext(ctx).Exec("UPDATE change_sequence SET value = value + 1").Error
	}
	storetest.Eventually(t, "a write", func() bool { return write() == nil })
	require.NoError(t, db.Current(t.Context(), migrations))

	setReadOnly(t, address, "on")
	db = single(t, u.String())
	err := write()
	require.True(t, database.IsUnavailable(err), "no server accepts writes: %v", err)
}

func TestServingRoleIsRejectedIfItCanChangeAppendOnlyTables(t *testing.T) {
	url := storetest.Postgres(t)
	role, asRole := storetest.Role(t, url)
	other, _ := storetest.Role(t, url)
	migrate(t, database.Config{URL: url, ServingRole: role})
	admin, serving := open(t, url).WithContext(t.Context()), open(t, asRole)
	require.NoError(t, serving.RequireServingRole(t.Context()))
	require.ErrorContains(t, open(t, url).RequireServingRole(t.Context()), "run ALTER ROLE opportunity NOSUPERUSER")
	allowed := openAs(t, database.Config{URL: url, MaxConnections: 1, AllowOwner: true}, start(t))
	require.NoError(t, allowed.RequireServingRole(t.Context()))

	for _, c := range []struct{ grant, undo, want string }{
		{"GRANT DELETE, TRUNCATE ON facts TO $role", "REVOKE DELETE, TRUNCATE ON facts FROM $role",
			"role $role can DELETE, TRUNCATE append-only table public.facts: run REVOKE DELETE, TRUNCATE ON public.facts " +
				"FROM $role, PUBLIC"},
		{"GRANT UPDATE (id) ON facts TO $role", "REVOKE UPDATE ON facts FROM $role",
			"role $role can UPDATE append-only table public.facts"},
		{"ALTER TABLE facts OWNER TO $role", "ALTER TABLE facts OWNER TO opportunity",
			"as a superuser, run REASSIGN OWNED BY $role TO the owner role"},
		{"ALTER SCHEMA public OWNER TO $role", "ALTER SCHEMA public OWNER TO pg_database_owner",
			"role $role can DROP append-only table public.facts"},
		{"GRANT UPDATE ON facts TO $other; GRANT $other TO $role; ALTER ROLE $role NOINHERIT",
			"ALTER ROLE $role INHERIT; REVOKE $other FROM $role; REVOKE UPDATE ON facts FROM $other",
			"role $role can UPDATE append-only table public.facts: run REVOKE $other FROM $role"},
		{"GRANT pg_write_all_data TO $role", "REVOKE pg_write_all_data FROM $role",
			"run REVOKE pg_write_all_data FROM $role"},
		{"ALTER ROLE $role CREATEROLE", "ALTER ROLE $role NOCREATEROLE", "run ALTER ROLE $role NOSUPERUSER NOCREATEROLE"},
	} {
		named := strings.NewReplacer("$role", role, "$other", other).Replace
		require.NoError(t, admin.Exec(named(c.grant)).Error)
		err := serving.RequireServingRole(t.Context())
		require.ErrorAs(t, err, new(database.RoleError), c.grant)
		require.ErrorContains(t, err, named(c.want), c.grant)
		require.ErrorContains(t, err, "for development only, set OPPORTUNITY_DATABASE_ALLOW_OWNER=true")
		require.NoError(t, admin.Exec(named(c.undo)).Error)
		require.NoError(t, serving.RequireServingRole(t.Context()), c.undo)
	}
}
