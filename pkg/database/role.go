package database

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// RoleError is the error of RequireServingRole about rights. Its text has no secret.
type RoleError string

func (e RoleError) Error() string { return string(e) }

// RequireServingRole returns a RoleError if the role of the connection could change or drop an
// append-only table or its triggers: as a superuser, as the owner of the table or of its schema, or
// by a right that the role or one of its memberships has. The text names the statements that mend
// it. The error is nil on SQLite, and if AllowOwner is set.
func (d *DB) RequireServingRole(ctx context.Context) error {
	if d.Dialect == SQLite || d.allowOwner {
		return nil
	}
	var me struct {
		Name       string
		Superuser  bool
		CreateRole bool
	}
	err := d.WithContext(ctx).Raw(`SELECT quote_ident(rolname) AS name, rolsuper AS superuser, rolcreaterole AS create_role
		FROM pg_roles WHERE rolname = session_user`).Scan(&me).Error
	if err != nil {
		return err
	}
	if me.Superuser || me.CreateRole {
		return RoleError(fmt.Sprintf("role %[1]s can change append-only tables, as a superuser or by creating roles: "+
			"run ALTER ROLE %[1]s NOSUPERUSER NOCREATEROLE, or serve with another role; %s", me.Name, exception))
	}
	var found []struct {
		Table, Role, Rights string
		Owns                bool
	}
	err = d.WithContext(ctx).Raw(`SELECT format('%I.%I', n.nspname, c.relname) AS table, quote_ident(r.rolname) AS role,
			r.oid IN (c.relowner, n.nspowner) AS owns, concat_ws(', ',
				CASE WHEN has_any_column_privilege(r.oid, c.oid, 'UPDATE') THEN 'UPDATE' END,
				CASE WHEN has_table_privilege(r.oid, c.oid, 'DELETE') THEN 'DELETE' END,
				CASE WHEN has_table_privilege(r.oid, c.oid, 'TRUNCATE') THEN 'TRUNCATE' END) AS rights
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
		WHERE c.relkind = 'r' AND n.nspname = current_schema() AND obj_description(c.oid, 'pg_class') = ?
			AND pg_has_role(session_user, r.oid, 'MEMBER')
		ORDER BY 1, r.rolname = session_user, 2`, AppendOnly).Scan(&found).Error
	if err != nil {
		return err
	}
	var all []error
	inherited := map[string]bool{} // tables that the role can change as a member of another
	for _, f := range found {
		rights, mend := f.Rights, ""
		if f.Owns {
			rights = strings.TrimSuffix("DROP, "+f.Rights, ", ")
		}
		switch {
		case rights == "" || f.Role == me.Name && inherited[f.Table] && !f.Owns:
			continue
		case f.Role != me.Name:
			inherited[f.Table] = true
			mend = "run REVOKE " + f.Role + " FROM " + me.Name
		case f.Owns:
			mend = "as a superuser, run REASSIGN OWNED BY " + f.Role +
				" TO the owner role, and then migrate as the owner role " +
				"with OPPORTUNITY_DATABASE_SERVING_ROLE=" + strings.Trim(f.Role, `"`)
		default:
			mend = "run REVOKE " + rights + " ON " + f.Table + " FROM " + f.Role + ", PUBLIC"
		}
		all = append(all, fmt.Errorf("role %s can %s append-only table %s: %s", me.Name, rights, f.Table, mend))
	}
	if len(all) == 0 {
		return nil
	}
	return RoleError(errors.Join(all...).Error() + "; " + exception)
}

const exception = "for development only, set OPPORTUNITY_DATABASE_ALLOW_OWNER=true"
