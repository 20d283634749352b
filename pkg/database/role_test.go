package database_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
)

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
