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
  id         integer PRIMARY KEY AUTOINCREMENT,
  account_id text   NOT NULL
);

-- Who did what, when. No foreign keys: an entry outlives what it speaks of.
CREATE TABLE audit_log (
  id      integer PRIMARY KEY AUTOINCREMENT,
  at      bigint NOT NULL,
  actor   text   NOT NULL,
  action  text   NOT NULL,
  subject text   NOT NULL,
  detail  text   NOT NULL
);

-- +goose StatementBegin
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, without a word to the trigger above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_replace BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE audit_log;
DROP TABLE epoch_raises;
DROP TABLE usage_days;
DROP TABLE api_keys;
DROP TABLE accounts;
