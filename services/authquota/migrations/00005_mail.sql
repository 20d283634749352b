-- Instants are microseconds since 1970 UTC.

-- +goose Up
-- Mails that are still to be sent, posted in the transaction of what they tell. The letter, its address and its links are sealed;
-- the row goes when the letter is sent or given up.
CREATE TABLE mails (
  id         text   PRIMARY KEY,
  template   text   NOT NULL,
  letter     text   NOT NULL,
  created_at bigint NOT NULL,
  due_at     bigint NOT NULL,
  attempts   bigint NOT NULL DEFAULT 0
);
CREATE INDEX mails_by_due ON mails (due_at);

-- Notices of a key's end that were posted, so that each is posted once: days is how many before the end.
CREATE TABLE key_notices (
  key_id text   NOT NULL REFERENCES api_keys (id),
  days   bigint NOT NULL,
  at     bigint NOT NULL,
  PRIMARY KEY (key_id, days)
);
CREATE INDEX api_keys_by_end ON api_keys (expires_at);

-- Operators read the log by these.
CREATE INDEX audit_log_by_subject ON audit_log (subject, id);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);

-- +goose Down
DROP INDEX audit_log_by_actor;
DROP INDEX audit_log_by_subject;
DROP INDEX api_keys_by_end;
DROP TABLE key_notices;
DROP TABLE mails;
