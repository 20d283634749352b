#!/usr/bin/env bash
# Creates for each service a schema, an owner role for migrations, and a serving role with only the rights that migrate grants.
# The Postgres image runs this once, on an empty data directory; docker/compose.yaml uses it too. Passwords come from the
# environment: CATALOG_OWNER_PASSWORD, CATALOG_PASSWORD and so on.
(
  set -euo pipefail
  for service in catalog history authquota billing; do
    owner=${service^^}_OWNER_PASSWORD serve=${service^^}_PASSWORD
    psql -q -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
      -v schema="$service" -v owner="${service}_owner" -v owner_password="${!owner}" -v serve="$service" -v serve_password="${!serve}" <<-'SQL'
	CREATE ROLE :"owner" LOGIN PASSWORD :'owner_password';
	CREATE ROLE :"serve" LOGIN PASSWORD :'serve_password';
	CREATE SCHEMA :"schema" AUTHORIZATION :"owner";
	SQL
  done
) || exit 1
