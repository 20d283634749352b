-- Instants are microseconds since 1970 UTC.

-- +goose Up
CREATE TABLE accounts (
  id             text   PRIMARY KEY,
  tier           text   NOT NULL CHECK (tier <> ''),
  suspended_at   bigint,
  suspend_reason text   NOT NULL DEFAULT '',
  created_at     bigint NOT NULL
);

-- The digest is the hexadecimal HMAC-SHA-256 of the key under the pepper that was the newest when it was issued. The key itself
-- is nowhere.
CREATE TABLE api_keys (
  id         text   PRIMARY KEY,
  account_id text   NOT NULL REFERENCES accounts (id),
  digest     text   NOT NULL UNIQUE CHECK (length(digest) = 64),
  prefix     text   NOT NULL,
  last_four  text   NOT NULL CHECK (length(last_four) = 4),
  use_case   text   NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL CHECK (expires_at > created_at),
  revoked_at bigint
);
CREATE INDEX api_keys_by_account ON api_keys (account_id);

-- The ledger. Account '*' is the total of all accounts, counted by itself.
CREATE TABLE usage_days (
  day        text   NOT NULL,
  account_id text   NOT NULL,
  calls      bigint NOT NULL CHECK (calls >= 0),
  PRIMARY KEY (day, account_id)
);

-- Accounts whose epoch must still be raised in the counter store: written with the change, deleted once it was raised.
CREATE TABLE epoch_raises (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id text   NOT NULL
);

-- Who did what, when. No foreign keys: an entry outlives what it speaks of.
CREATE TABLE audit_log (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      bigint NOT NULL,
  actor   text   NOT NULL,
  action  text   NOT NULL,
  subject text   NOT NULL,
  detail  text   NOT NULL
);
COMMENT ON TABLE audit_log IS 'append-only';

-- +goose StatementBegin
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'audit_log is append-only';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();
-- also for a session that sets session_replication_role to replica
ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_is_append_only;

-- +goose Down
DROP TABLE audit_log;
DROP FUNCTION audit_log_is_append_only;
DROP TABLE epoch_raises;
DROP TABLE usage_days;
DROP TABLE api_keys;
DROP TABLE accounts;
